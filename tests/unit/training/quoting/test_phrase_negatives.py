"""Columns: equal strings are one, prefixes come from one pass, right phrases are always there."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.generation.negatives import TABLE_5
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import ConfigError
from quoth.selfsupervision.phrase_matching import OccurrenceIndex, SubwordText
from quoth.selfsupervision.phrase_sampling import MixedSample
from quoth.training.quoting.negatives_config import NegativesConfig
from quoth.training.quoting.phrase_negatives import (
    PhraseString,
    candidate_strings,
    key_ids,
    make_columns,
    negative_strings,
    phrase_key,
    valid_alternatives,
)
from quoth.training.quoting.set import Continuations

SAMPLE = MixedSample(np.array([10, 11, 12, 13, 14, 15, 16]), np.array([[1, 4]]))
GOLD = (11, 12, 13)
CORPUS = OccurrenceIndex(np.array([*GOLD, 30, 31, 32, 33, 34], dtype=np.uint16), np.array([0, 8]))


def offered(name: str) -> set[tuple[int, ...]]:
    """List what one row of Table 5 offers beside nothing else."""
    strings = negative_strings(
        SAMPLE,
        TABLE_5[name],
        continuations=Continuations({phrase_key(GOLD): (20, 21)}),
        occurrences=CORPUS,
        chance=np.random.default_rng(0),
    )
    return {tuple(key_ids(key).tolist()) for key in make_columns(strings).column_by_phrase}


def test_table_5_offers_what_it_says() -> None:
    prefixes, own = {(11, 12)}, {GOLD}
    generated = {(*GOLD, 20), (*GOLD, 20, 21)}
    followed = {(*GOLD, 14), (*GOLD, 14, 15), (*GOLD, 14, 15, 16)}
    elsewhere = {(*GOLD, *range(30, end)) for end in range(31, 35)}
    assert offered("in_batch") == own
    assert offered("pre_batch") == own | prefixes
    assert offered("generation") == own | prefixes | generated
    assert offered("self_retrieval") == own | prefixes | followed
    assert offered("corpus_retrieval") == own | prefixes | elsewhere
    assert offered("self_generation") == own | prefixes | followed | generated
    assert TABLE_5["pre_batch"].pre_batch > 0


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=12))
def test_columns_spell_their_strings(strings: list[list[int]]) -> None:
    wanted = [PhraseString(phrase_key(each), tuple(range(1, len(each) + 1))) for each in strings]
    columns = make_columns(wanted)
    prefixes = {tuple(each[:end]) for each in strings for end in range(1, len(each) + 1)}
    assert {tuple(key_ids(key).tolist()) for key in columns.column_by_phrase} == prefixes
    for key, column in columns.column_by_phrase.items():
        row, end = columns.rows[column], columns.ends[column] + 1
        assert np.array_equal(columns.subword_ids[row, :end], key_ids(key))
        assert columns.mask[row, :end].all()
    encoded = [tuple(ids[own]) for ids, own in zip(columns.subword_ids, columns.mask, strict=True)]
    for at, one in enumerate(encoded):
        assert not any(other[: len(one)] == one for to, other in enumerate(encoded) if to != at)


def test_candidates_are_the_stretches_of_words_of_the_passages() -> None:
    starts = np.array([True, True, False, True, True, True])
    passage = SubwordText(np.array([1, 2, 3, 4, 9, 5]), starts)
    opens = np.ones(10, dtype=bool)
    opens[9] = False  # a mark: may end a phrase, but not begin one
    strings = candidate_strings(
        [passage],
        np.array([[0, 1, 2]]),
        opens_word=opens,
        budget=9,
        max_subwords=4,
        chance=np.random.default_rng(0),
    )
    columns = make_columns(strings.values())
    found = {tuple(key_ids(key).tolist()) for key in columns.column_by_phrase}
    expected = {
        (1, 2, 3),
        (1, 2, 3, 4),
        (2, 3),
        (2, 3, 4),
        (2, 3, 4, 9),
        (4, 9),
        (4, 9, 5),
    }
    assert found == expected


def test_a_budget_keeps_what_is_near_the_quoted_phrase() -> None:
    size = 60
    passage = SubwordText(np.arange(size), np.ones(size, dtype=bool))
    quoted = np.array([[0, 30, 3]])
    near = set(range(27, 33))
    for budget, expected in ((0, len(near)), (20, 20)):
        strings = candidate_strings(
            [passage],
            quoted,
            opens_word=np.ones(size, dtype=bool),
            budget=budget,
            max_subwords=4,
            chance=np.random.default_rng(1),
        )
        begun = {int(key_ids(each.key)[0]) for each in strings.values()}
        assert near <= begun and expected - 1 <= len(begun) <= expected


def test_valid_alternatives_spell_what_follows() -> None:
    columns = make_columns([PhraseString(phrase_key([2, 3, 4]), (2, 3))])
    ids = np.array([1, 2, 3, 4, 2, 3])
    found = valid_alternatives(ids, np.array([0, 1, 4]), columns).tolist()
    assert found == [[1, 0], [1, 1], [2, 0]]


def test_single_subwords_are_offered_where_asked() -> None:
    strings = negative_strings(
        SAMPLE,
        NegativesConfig(self_retrieval=False, generation=False, single_subwords=True),
        continuations=Continuations(),
        occurrences=None,
        chance=np.random.default_rng(0),
    )
    assert phrase_key([11]) in make_columns(strings).column_by_phrase


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"pre_batch is -1.*extension is 0"):
        NegativesConfig(pre_batch=-1, extension=0)
