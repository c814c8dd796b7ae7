"""Negatives are of the type asked for, and never what the query should find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.unit.training.passage_worlds import World

from quoth.errors import ConfigError
from quoth.training.retriever.negatives import chance_from, draw_negatives
from quoth.training.retriever.passage_set import PassageSet, pad_rows

ROWS = np.arange(40)


@pytest.fixture(scope="module")
def passages() -> PassageSet:
    own = World().passage_set
    excluded = pad_rows([(int(own.lexical_rows[row, 1]),) for row in range(len(own.queries))])
    return replace(own, excluded_rows=excluded)


def draw(passages: PassageSet, kind: str, count: int, **others: object) -> np.ndarray:
    chance = np.random.default_rng(0)
    return draw_negatives(passages, ROWS, kind=kind, count=count, chance=chance, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["random", "bm25", "labelled", "retriever"])
def test_no_negative_is_positive_excluded_or_twice(passages: PassageSet, kind: str) -> None:
    retrieved = passages.lexical_rows[ROWS]
    drawn = draw(passages, kind, 5, retrieved=retrieved)
    assert drawn.shape == (40, 5)
    assert not (drawn == passages.positive_rows[ROWS, None]).any()
    assert not (drawn == passages.excluded_rows[ROWS]).any()
    assert all(len(set(own)) == 5 for own in drawn.tolist())
    assert drawn.min() >= 0 and drawn.max() < passages.num_passages


def test_each_type_is_drawn_from_its_list(passages: PassageSet) -> None:
    for row, own in zip(ROWS, draw(passages, "bm25", 3).tolist(), strict=True):
        assert set(own) <= set(passages.lexical_rows[row, 1:].tolist())
    for row, own in zip(ROWS, draw(passages, "labelled", 2).tolist(), strict=True):
        assert set(own) <= set(passages.negative_rows[row].tolist())
    retrieved = np.tile(np.array([7, 8, 9, 10]), (40, 1))
    for own in draw(passages, "retriever", 1, retrieved=retrieved).tolist():
        assert set(own) <= {7, 8, 9, 10}


def test_missing_judgements_and_too_few_passages_are_errors(passages: PassageSet) -> None:
    bare = replace(passages, negative_rows=pad_rows([()] * len(passages.queries)))
    with pytest.raises(ConfigError, match="judged not relevant"):
        draw(bare, "labelled", 1)
    with pytest.raises(ConfigError, match="too few for 40 negatives"):
        draw(passages, "random", 40)


def test_chance_follows_the_generator() -> None:
    draws = [
        chance_from(torch.Generator().manual_seed(seed)).integers(0, 1000, 5).tolist()
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
