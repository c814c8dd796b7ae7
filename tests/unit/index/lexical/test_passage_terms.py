"""The record of a document's passages reads back, and weighs them as counting would."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.index.lexical import passage_terms
from quoth.index.lexical.passage_terms import (
    PassageTerms,
    PlacedPassage,
    weigh_terms,
    write_record,
)

TERMS = st.lists(st.sampled_from(["owl", "barn", "night", "a", "東京"]), max_size=15)


@given(st.lists(TERMS, max_size=6))
def test_weights_are_those_of_counted_terms(passages: list[list[str]]) -> None:
    placed = [PlacedPassage(0, at, 3 * at, 3 * at + 2) for at in range(len(passages))]
    weights = {"night": 0.3, "owl": 2.0, "raven": 1.0, "東京": 0.7}
    read = PassageTerms(write_record(placed, passages))
    assert [read.place(at) for at in range(len(read))] == placed
    assert read.weigh(weights) == [
        weigh_terms(Counter(own), weights, num_terms=len(own)) for own in passages
    ]


def test_keys_that_share_a_letter_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_terms, "_LETTER_BITS", 0x1)
    monkeypatch.setattr(passage_terms, "_LETTERS", passage_terms._Letters())
    drawn = random.Random(0)
    for _each in range(200):
        passages = [drawn.choices("abcdef", k=drawn.randrange(20)) for _passage in range(4)]
        placed = [PlacedPassage(0, at, 0, 1) for at in range(len(passages))]
        weights = dict.fromkeys("abcxyz", 1.0)
        assert PassageTerms(write_record(placed, passages)).weigh(weights) == [
            weigh_terms(Counter(own), weights, num_terms=len(own)) for own in passages
        ]


@pytest.mark.parametrize("at", range(32))
def test_a_flipped_bit_is_noticed(at: int) -> None:
    record = bytearray(write_record([PlacedPassage(0, 0, 0, 3)], [["owl"]]))
    assert len(record) == 32
    record[at] ^= 4
    with pytest.raises(ValueError, match="checksum"):
        PassageTerms(bytes(record))


def test_keys_at_hand_stay_few_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = [f"t{at}" for at in range(50)]
    placed = [PlacedPassage(0, 0, 0, 3)]
    expected = write_record(placed, [terms])
    monkeypatch.setattr(passage_terms, "_MAX_KEYS", 10)
    for number in range(50):
        assert PassageTerms(expected).weigh({f"never {number}": 1.0}) == [0.0]
        assert PassageTerms(expected).weigh({f"t{number}": 1.0}) != [0.0]
        assert len(passage_terms._KEYS) <= 10
    assert write_record(placed, [terms]) == expected
