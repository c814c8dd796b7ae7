"""Weights of a sentence's signs, fitted to questions whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

from benchmarks.citations.sentence_signs import (
    ALL_SIGNS,
    KINDS,
    Asked,
    by_folds,
    fit_weights,
    judge,
    nearness_of,
    open_asked,
    pages_of,
    save_asked,
)
from benchmarks.citations.tried_signs import tried_signs

from quoth.answer.nearness import sentences_of

SPANS, NEARNESS = ALL_SIGNS.index("spans"), ALL_SIGNS.index("nearness")


def make_asked(count: int = 60) -> list[Asked]:
    """Make questions that spans tell held out, and nearness in documentation."""
    chance = np.random.default_rng(0)
    found = []
    for at in range(count):
        kind = KINDS[at % len(KINDS)]
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
    assert fit_weights(make_asked(), ALL_SIGNS[:NEARNESS])[NEARNESS] == 0.0


def test_a_sign_that_would_speak_the_wrong_way_weighs_nothing() -> None:
    silence = ALL_SIGNS.index("silence")
    turned = [
        each._replace(signs=np.where(np.arange(len(ALL_SIGNS)) == silence, each.gold[:, None], 0.0))
        for each in make_asked()
    ]
    assert not fit_weights(turned, ("spans", "silence")).any()
    against = [each._replace(signs=-each.signs) for each in turned]
    assert fit_weights(against, ("spans", "silence"))[silence] < -1.0


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
    save_asked(tmp_path / "signs.npz", asked)
    read = open_asked(tmp_path / "signs.npz")
    assert [each.kind for each in read] == [asked[at].kind for at in (0, 2, 3)]
    assert len(read[0].gold) == 5


def test_the_best_sentences_alone_are_encoded() -> None:
    sentences = sentences_of(["Owls hunt. They fly. Hens sleep."])
    encoded: list[str] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        encoded.extend(texts[1:])
        return np.array([[1.0, "fly" in each] for each in texts], dtype=np.float32)

    found = nearness_of("Who?", sentences, np.array([0.0, 1.0, -np.inf]), encode=encode)
    assert encoded[:2] == ["Owls hunt. They fly.", "Owls hunt."]
    assert found[:, 0].argmin() == 1 and found[:, 0].max() == pytest.approx(1.0)


def test_passages_of_a_page_are_put_together() -> None:
    rows = [{"title": "ls", "passage": text} for text in ("Lists.", "Sorts.", "Lists.")]
    (page,) = pages_of(rows)
    assert page.fields == {"title": ("ls",), "text": ("Lists.", "Sorts.")}


def test_words_tell_what_kind_a_sentence_is() -> None:
    text = "How do I list files?\n\n- Use ls. It prints their names with --all"
    signs = tried_signs("How do I list files?", [text], [""])
    rows = {name: values.tolist() for name, values in signs.items()}
    assert rows["question"] == [1.0, 0.0, 0.0] and rows["unfinished"] == [0.0, 0.0, 1.0]
    assert rows["coverage"] == [1.0, 0.0, 0.0] and rows["item"] == [0.0, 1.0, 0.0]
    assert rows["coverage of the heading"] == [0.0, 1.0, 1.0]
    assert rows["coverage with the one before"] == [1.0, 1.0, 0.0]
    assert rows["kind of answer"][2] == 1.0
