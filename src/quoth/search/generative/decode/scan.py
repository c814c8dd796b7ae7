"""Find the best identifiers among those listed under the phrases of the shortlist.

An identifier made of shortlisted phrases alone is listed under one of them, its rarest, and the
phrase that stands beside it there is one of them too: most are dropped by that, unread. Lists are
read from the phrase with the highest score down; what a phrase and the best others of an identifier
could add up to tells when no list that is left can hold a better identifier: exact, unless told to
stop before. With a score for phrases outside the shortlist every identifier counts, and all are
looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.index.trie.walk import read_pair
from quoth.models.pixar.shortlist.kernel import mark, prefetch
from quoth.search.generative.decode.places import has_bit
from quoth.search.generative.decode.score import (
    Float32,
    Int32,
    Kept,
    Lookup,
    ScoreTable,
    make_kept,
    try_rows,
)

_BUCKETS = 1024
_CHECK_EVERY = 64
_AT_ONCE = 1024  # identifiers that are scored together
_AHEAD = 16  # lists between the one read and the one asked for
_PAIR_BYTES = 6
_LINE = 64  # bytes that memory gives at once


class Lists(NamedTuple):
    """The lists of the shortlisted phrases that hold anything, and in which order to read them."""

    scores: Float32  # (lists,) the most that the phrase of each can add
    los: Int32
    his: Int32
    order: Int32
    step: float  # by how much a score may exceed those before it in that order
    seconds: NDArray[np.uint64]  # a bit for each phrase that may stand beside the rarest


@njit(cache=True, nogil=True)
def order_lists(lookup: Lookup, table: ScoreTable, shortlist: Int32) -> Lists:
    """Find the lists to read, and the order."""
    seconds = np.zeros(len(table.places.words), dtype=np.uint64)
    mark(shortlist >> lookup.lost_bits, seconds)
    scores, los, his = _find_lists(lookup.rarest_starts, table.best, shortlist)
    return Lists(scores, los, his, order_roughly(scores), _bucket_width(scores), seconds)


@njit(cache=True, nogil=True)
def scan_lists(
    lookup: Lookup, table: ScoreTable, lists: Lists, depth: int, reach: int, part: int, parts: int
) -> Kept:
    """Read each `parts`-th list that may hold one of the best, from that of number `part` on.

    No further list is read once `reach` identifiers were looked at.
    """
    kept = make_kept(table, depth, -np.inf)
    pairs, row_bits, seconds = lookup.rarest_pairs, lookup.row_bits, lists.seconds
    scores, los, his, order = lists.scores, lists.los, lists.his, lists.order
    rows, count, seen = np.empty(_AT_ONCE, dtype=np.int64), np.int64(0), 0
    for turn in range(part, len(order), parts):
        own = order[turn]
        is_due = (turn // parts) % _CHECK_EVERY == 0
        if is_due and _is_done(table, kept, scores[own] + lists.step):
            break
        if seen >= reach:
            break
        seen += his[own] - los[own]
        if turn + _AHEAD * parts < len(order):
            following = order[turn + _AHEAD * parts]
            _ask_for(pairs, los[following], his[following])
        at = los[own]
        while at < his[own]:
            end = min(his[own], at + _AT_ONCE - count)
            for place in range(at, end):  # no branches: reads run side by side
                pair = read_pair(pairs, place)
                rows[count] = pair & ((1 << row_bits) - 1)
                count += has_bit(seconds, pair >> row_bits)
            at = end
            if count == _AT_ONCE:
                try_rows(lookup, table, kept, rows)
                count = np.int64(0)
    try_rows(lookup, table, kept, rows[:count])
    return kept


@njit(cache=True, nogil=True)
def _ask_for(pairs: NDArray[np.uint16], lo: int, hi: int) -> None:
    """Ask memory for a list; of a long one the rest comes by itself."""
    start = np.int64(lo) * _PAIR_BYTES
    prefetch(pairs, start)
    prefetch(pairs, start + _LINE)
    prefetch(pairs, np.int64(hi) * _PAIR_BYTES - 1)


@njit(cache=True, nogil=True)
def _find_lists(starts: Int32, best: Float32, shortlist: Int32) -> tuple[Float32, Int32, Int32]:
    """Return the score, start and end of each list that holds anything.

    Starts are looked up here in the order of phrases, which is that of memory.
    """
    scores = np.empty(len(shortlist), dtype=np.float32)
    los, his = np.empty(len(shortlist), dtype=np.int32), np.empty(len(shortlist), dtype=np.int32)
    count = 0
    for place in range(len(shortlist)):
        phrase_id = shortlist[place]
        scores[count], los[count], his[count] = (
            best[place],
            starts[phrase_id],
            starts[phrase_id + 1],
        )
        count += los[count] < his[count]
    return scores[:count], los[:count], his[:count]


@njit(cache=True, nogil=True)
def _is_done(table: ScoreTable, kept: Kept, best: float) -> bool:
    """Say whether no identifier whose rarest phrase adds at most this can be kept."""
    for length in range(1, len(kept.needs)):
        if best + table.others[length] >= kept.needs[length]:
            return False
    return True


@njit(cache=True, nogil=True)
def scan_all(lookup: Lookup, table: ScoreTable, depth: int) -> Kept:
    """Look at every identifier."""
    kept = make_kept(table, depth, -np.inf)
    for length in range(1, len(lookup.length_rows) - 1):
        end = lookup.length_rows[length + 1] if table.is_legal[length] else 0
        for lo in range(lookup.length_rows[length], end, _AT_ONCE):
            try_rows(lookup, table, kept, np.arange(lo, min(lo + _AT_ONCE, end)))
    return kept


@njit(cache=True, nogil=True)
def order_roughly(scores: Float32) -> Int32:
    """Order places by score, the best first, as exactly as a thousand steps allow.

    >>> order_roughly(np.array([0.0, 3.0, 1.0], dtype=np.float32))
    array([1, 2, 0], dtype=int32)
    """
    order = np.empty(len(scores), dtype=np.int32)
    if len(scores) == 0:
        return order
    high, scale = scores.max(), np.float32(1.0 / _bucket_width(scores))
    starts = np.zeros(_BUCKETS + 1, dtype=np.int64)
    for score in scores:
        starts[int((high - score) * scale) + 1] += 1
    for bucket in range(_BUCKETS):
        starts[bucket + 1] += starts[bucket]
    for place in range(len(scores)):
        bucket = int((high - scores[place]) * scale)
        order[starts[bucket]] = place
        starts[bucket] += 1
    return order


@njit(cache=True, nogil=True)
def _bucket_width(scores: Float32) -> np.float64:
    """Say how far scores of one bucket can be apart; a little more than their share."""
    if len(scores) == 0:
        return np.float64(1.0)
    width = (np.float64(scores.max()) - np.float64(scores.min())) / (_BUCKETS - 2)
    return width if width > 1e-30 else np.float64(1.0)
