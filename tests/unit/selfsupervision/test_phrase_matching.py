"""Matches are those of a walk that looks at every stretch of every text."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.selfsupervision.phrase_matching import (
    MatchLimits,
    OccurrenceIndex,
    SubwordText,
    match_forward,
)

LIMITS = MatchLimits(min_words=2, max_words=3, max_subwords=5)


@st.composite
def texts(draw: st.DrawFn, *, longest: int = 18) -> SubwordText:
    """Draw a text over few subwords; even ones begin words, so equal strings are bounded alike."""
    ids = draw(st.lists(st.integers(0, 5), max_size=longest))
    starts = [at == 0 or each % 2 == 0 for at, each in enumerate(ids)]
    return SubwordText(np.array(ids, dtype=np.int64), np.array(starts, dtype=bool))


def bounds(text: SubwordText) -> list[bool]:
    return [*text.word_starts.tolist(), True]


def occurs(text: SubwordText, start: int, end: int, others: list[SubwordText], own: bool) -> bool:
    """Whether a stretch stands, bounded by words, in another text or earlier in its own."""
    wanted = text.subword_ids[start:end].tolist()
    for number, other in enumerate([*others, text] if own else others):
        ids, cuts = other.subword_ids.tolist(), bounds(other)
        until = start if number == len(others) else len(ids)
        for at in range(until - len(wanted) + 1):
            if ids[at : at + len(wanted)] == wanted and cuts[at] and cuts[at + len(wanted)]:
                return True
    return False


def slow_matches(
    text: SubwordText, others: list[SubwordText], stops: list[bool], own: bool
) -> list[tuple[int, int]]:
    found, at, size = [], 0, len(text.subword_ids)
    cuts = bounds(text)
    while at < size:
        best = 0
        for end in range(at + 2, min(at + LIMITS.max_subwords, size) + 1):
            words = sum(cuts[at:end])
            fits = cuts[at] and cuts[end] and words <= LIMITS.max_words
            if fits and not any(stops[at:end]) and occurs(text, at, end, others, own):
                best = end
        if best and sum(cuts[at:best]) >= LIMITS.min_words:
            found.append((at, best))
            at = best
        else:
            at += 1
    return found


@settings(max_examples=200, deadline=None)
@given(texts(), st.lists(texts(), max_size=3), st.booleans())
def test_matching_equals_looking_everywhere(
    text: SubwordText, others: list[SubwordText], own: bool
) -> None:
    stops = text.subword_ids == 4
    found = match_forward(text, others, is_stop=stops, limits=LIMITS, own=own)
    expected = slow_matches(text, others, stops.tolist(), own)
    assert [(start, end) for start, end, *_ in found.tolist()] == expected
    for start, end, number, place in found.tolist():
        source = text if number == -1 else others[number]
        there = source.subword_ids[place : place + end - start]
        assert np.array_equal(there, text.subword_ids[start:end])


def test_followers_stand_behind_the_phrase_in_another_text() -> None:
    ids = np.array([1, 2, 3, 4, 1, 2, 5, 6, 7, 1, 2], dtype=np.uint16)
    index = OccurrenceIndex(ids, np.array([0, 4, 9, 11]))
    chance = np.random.default_rng(0)
    assert index.followers([1, 2], count=2, chance=chance, avoid=0) == (5, 6)
    assert index.followers([1, 2], count=9, chance=chance, avoid=1) == (3, 4)
    assert index.followers([6, 7], count=2, chance=chance) == (), "the text ends there"
    assert index.followers([3, 1], count=2, chance=chance) == ()
