"""Identifiers as strings: distinct texts with their owners, cut once, and spelt again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.vocabulary.identifiers import (
    Integers,
    PhraseIds,
    cut_identifiers,
    gather_identifiers,
    sort_phrases,
)

LETTERS = "abc "


def cut_letters(texts: list[str]) -> tuple[PhraseIds, Integers]:
    """A vocabulary of letters; what is no letter of it is dropped."""
    known = [[LETTERS.index(each) for each in text if each in LETTERS] for text in texts]
    ids = np.array([each for own in known for each in own], dtype=np.int32)
    return ids, np.cumsum([0, *map(len, known)])


def spell_letters(ids: PhraseIds) -> str:
    return "".join(LETTERS[each] for each in ids)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.text("abc x", max_size=5)), max_size=20))
def test_every_owned_text_becomes_one_sequence_that_spells_it(
    given_texts: list[tuple[int, str]],
) -> None:
    identifiers = gather_identifiers(given_texts)
    expected = {(" ".join(text.split()), row) for row, text in given_texts}
    pairs = {
        (text, row)
        for text, (lo, hi) in zip(
            identifiers.texts, pairwise(identifiers.owner_starts), strict=True
        )
        for row in identifiers.owners[lo:hi].tolist()
    }
    assert pairs == {(text, row) for text, row in expected if text}
    assert list(identifiers.texts) == sorted(set(identifiers.texts))
    assert identifiers.counts.sum() == len(pairs)

    cut = cut_identifiers(identifiers, cut_letters)
    spelt = [spell_letters(cut.ids[lo:hi]) for lo, hi in pairwise(cut.offsets)]
    kept = sorted((text, row) for text, row in pairs if text.replace("x", ""))
    assert list(zip(spelt, cut.owners.tolist(), strict=True)) == [
        (text.replace("x", ""), row) for text, row in kept
    ]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=10))
def test_phrases_are_sorted_inside_each_sequence(sequences: list[list[int]]) -> None:
    ids = np.array([each for own in sequences for each in own], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, sequences)])
    before = ids.copy()
    found = sort_phrases(ids, offsets)
    assert [found[lo:hi].tolist() for lo, hi in pairwise(offsets)] == [
        sorted(own) for own in sequences
    ]
    assert ids.tolist() == before.tolist()
