"""Steps through a sorted table of phrase ids, for the trie and for decoding over it.

The identifiers of one length n stand one after the other in the flat array, sorted: row r of them,
counted from the first of that length, has its phrase of depth d at start + r · n + d. All who share
a prefix are neighbours, so a node of the trie is a range of rows, and a child is found by searching
the column at its depth. The search gallops, since what is sought is often near.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

PhraseIds = NDArray[np.int32]
Integers = NDArray[np.int64]
Shorts = NDArray[np.uint16]

_PAIR_BITS = 48
_ONE, _TWO = np.uint64(1), np.uint64(2)


@njit(cache=True, nogil=True)
def seek(phrase_ids: PhraseIds, first: int, stride: int, lo: int, hi: int, phrase_id: int) -> int:
    """Find the first of the rows lo to hi whose phrase is at least this one, hi if there is none.

    `first` is where row 0 keeps the phrase looked at; rows are `stride` apart.

    >>> table = np.array([3, 1, 3, 5, 8, 2], dtype=np.int32)  # rows (3, 1), (3, 5), (8, 2)
    >>> [seek(table, 0, 2, 0, 3, phrase_id) for phrase_id in (3, 4, 9)]
    [0, 2, 3]
    """
    step = 1
    while lo + step < hi and phrase_ids[first + (lo + step) * stride] < phrase_id:
        lo += step
        step *= 2
    end = min(lo + step, hi)
    while lo < end:
        middle = (lo + end) // 2
        if phrase_ids[first + middle * stride] < phrase_id:
            lo = middle + 1
        else:
            end = middle
    return lo


def split_bits(num_rows: int, num_phrases: int) -> tuple[int, int]:
    """Say how many bits of a pair hold the row, and how many the phrase loses.

    >>> split_bits(10_000_000, 5_000_000), split_bits(2**31, 5_000_000)
    ((24, 0), (31, 6))
    """
    row_bits = max(1, num_rows - 1).bit_length()
    return row_bits, max(0, max(1, num_phrases - 1).bit_length() + row_bits - _PAIR_BITS)


@njit(cache=True, nogil=True)
def write_pair(pairs: Shorts, at: int, pair: np.int64) -> None:
    """Store 48 bits."""
    pairs[3 * at] = pair & 0xFFFF
    pairs[3 * at + 1] = (pair >> 16) & 0xFFFF
    pairs[3 * at + 2] = pair >> 32


@njit(cache=True, nogil=True)
def read_pair(pairs: Shorts, at: int) -> np.int64:
    """Read 48 bits.

    >>> pairs = np.zeros(6, dtype=np.uint16)
    >>> write_pair(pairs, 1, 2**40 + 7)
    >>> read_pair(pairs, 1) == 2**40 + 7
    True
    """
    first = np.uint64(3 * at)  # without a sign, so that no index counts from the end
    middle, high = np.int64(pairs[first + _ONE]), np.int64(pairs[first + _TWO])
    return np.int64(pairs[first]) | (middle << 16) | (high << 32)


@njit(cache=True, nogil=True)
def compare_rows(
    own: PhraseIds, own_start: int, other: PhraseIds, other_start: int, length: int
) -> int:
    """Order two sequences of one length: below 0 if the first comes first, 0 if they are equal."""
    for at in range(length):
        difference = np.int64(own[own_start + at]) - np.int64(other[other_start + at])
        if difference != 0:
            return -1 if difference < 0 else 1
    return 0


@njit(cache=True, nogil=True)
def find_rows(
    phrase_ids: PhraseIds,
    length_rows: Integers,
    length_starts: Integers,
    sought: PhraseIds,
    offsets: Integers,
) -> Integers:
    """Find the row of each sequence, -1 where it is no identifier."""
    rows = np.full(len(offsets) - 1, -1, dtype=np.int64)
    for at in range(len(rows)):
        length = offsets[at + 1] - offsets[at]
        if length == 0 or length + 1 >= len(length_rows):
            continue
        lo, hi = 0, length_rows[length + 1] - length_rows[length]
        end = hi
        while lo < hi:
            middle = (lo + hi) // 2
            start = length_starts[length] + middle * length
            if compare_rows(phrase_ids, start, sought, offsets[at], length) < 0:
                lo = middle + 1
            else:
                hi = middle
        start = length_starts[length] + lo * length
        if lo < end and compare_rows(phrase_ids, start, sought, offsets[at], length) == 0:
            rows[at] = length_rows[length] + lo
    return rows
