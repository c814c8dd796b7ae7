"""Where phrases stand in a shortlist, told from a bit per phrase of the vocabulary.

A bit says whether a phrase is shortlisted; how many bits are set before it says where. A table with
a number per phrase would be thirty times as large, and no longer near the processor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.models.pixar.shortlist.kernel import count_ones, mark

Words = NDArray[np.uint64]

_SIX, _ALL = np.uint64(6), np.uint64(63)


class Places(NamedTuple):
    """A bit for each phrase, 64 in a word, and how many are set in the words before."""

    words: Words
    before: NDArray[np.int32]


@njit(cache=True, nogil=True)
def mark_places(shortlist: NDArray[np.int32], num_phrases: int) -> Places:
    """Set the bits of a shortlist's phrases."""
    words = np.zeros((num_phrases >> 6) + 1, dtype=np.uint64)
    mark(shortlist, words)
    before = np.empty(len(words), dtype=np.int32)
    total = np.int64(0)
    for at in range(len(words)):
        before[at] = total
        total += np.int64(count_ones(words[at]))
    return Places(words, before)


@njit(cache=True, nogil=True)
def has_bit(words: Words, phrase_id: int | np.int64) -> np.int64:
    """Return 1 for a phrase that is marked, 0 for any other."""
    number = np.uint64(phrase_id)  # without a sign, so that no index counts from the end
    return np.int64((words[number >> _SIX] >> (number & _ALL)) & np.uint64(1))


@njit(cache=True, nogil=True)
def find_place(places: Places, phrase_id: int) -> np.int64:
    """Say where a phrase stands in the shortlist, -1 outside.

    >>> places = mark_places(np.array([3, 64, 70], dtype=np.int32), 100)
    >>> [find_place(places, phrase_id) for phrase_id in (3, 4, 70)]
    [0, -1, 2]
    """
    if not has_bit(places.words, phrase_id):
        return np.int64(-1)
    return count_before(places.words, places.before, phrase_id)


@njit(cache=True, nogil=True)
def count_before(words: Words, before: NDArray[np.int32], phrase_id: int) -> np.int64:
    """Count the marked phrases with lower ids."""
    at = phrase_id >> 6
    lower = (np.uint64(1) << np.uint64(phrase_id & 63)) - np.uint64(1)
    return np.int64(before[at]) + np.int64(count_ones(words[at] & lower))
