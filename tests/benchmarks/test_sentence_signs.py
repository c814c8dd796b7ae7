"""Weights of a sentence's signs, fitted to questions whose answers are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.citations.sentence_signs import (
    ALL_SIGNS,
    KINDS,
    Asked,
    by_folds,
    fit_weights,
    judge,
    open_asked,
    save_asked,
)

SPANS, NEARNESS = ALL_SIGNS.index("spans"), ALL_SIGNS.index("nearness")


def make_asked(count: int = 60) -> list[Asked]:
    """Make questions that spans tell held out, and nearness in documentation."""
    chance = np.random.default_rng(0)
    found = []
    for at in range(count):
        kind = KINDS[at % 2]
        signs = chance.normal(size=(6, len(ALL_SIGNS)))
        telling = SPANS if kind == KINDS[0] else NEARNESS
        gold = np.arange(6) == signs[:, telling].argmax()
        found.append(Asked(kind, signs, gold))
    return found


def test_both_kinds_shape_the_weights() -> None:
    weights = fit_weights(make_asked(), ALL_SIGNS)
    others = np.delete(weights, [SPANS, NEARNESS])
    assert weights[[SPANS, NEARNESS]].min() > 2 * np.abs(others).max()


def test_a_sign_that_is_not_used_weighs_nothing() -> None:
    assert fit_weights(make_asked(), ALL_SIGNS[:-1])[NEARNESS] == 0.0


def test_questions_are_judged_by_weights_of_other_folds() -> None:
    asked = make_asked()
    weights = by_folds(asked, ALL_SIGNS)
    assert weights[0] is weights[5]
    assert not np.array_equal(weights[0], weights[1])
    by_spans = [np.eye(len(ALL_SIGNS))[SPANS]] * len(asked)
    assert judge(asked, by_spans, KINDS[0])["best"] == 1.0
    assert judge(asked, by_spans, KINDS[1])["best"] < 0.6


def test_what_was_gathered_is_read_back_without_unread_sentences(tmp_path: Path) -> None:
    asked = make_asked(4)
    asked[0].signs[(int(asked[0].gold.argmax()) + 1) % 6, 0] = -np.inf
    asked[1].signs[asked[1].gold] = -np.inf  # the answer itself was not read
    save_asked(tmp_path / "signs.npz", asked, (0.1, 0.2, 0.3, 0.4))
    read, weights = open_asked(tmp_path / "signs.npz")
    assert [each.kind for each in read] == [asked[at].kind for at in (0, 2, 3)]
    assert len(read[0].gold) == 5
    assert weights.tolist() == [0.1, 0.2, 0.3, 0.4, 0.0]
