"""What decoding does with one identifier: add up its phrases, and keep it if it is good enough.

Each way of decoding proposes identifiers; here they are scored, so that all ways agree to the last
bit. Sums are in float64, in the order of the phrases; the score is rounded to float32 before it is
compared, best first, ties by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.models.pixar.shortlist.kernel import prefetch
from quoth.search.generative.decode.places import Places, Words, count_before, find_place, has_bit

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

BLOCK_BITS = 14
"""Rows of a block, as a power of two."""

_SLACK = 1e-6  # rounding of a score and of a bound, relative to what they are made of


class Lookup(NamedTuple):
    """The trie's arrays, and where the identifiers of each length start."""

    phrase_ids: Int32
    length_rows: Int64
    length_starts: Int64
    block_lengths: Int64  # how long the first identifier of each block of rows is
    rarest_starts: Int32
    rarest_pairs: NDArray[np.uint16]
    row_bits: int  # of a pair; the other bits hold a phrase
    lost_bits: int  # lowest bits of the phrase that are not in a pair
    firsts: Int32  # the first phrase of every so many identifiers, to seek one from a root
    first_starts: Int64  # (L + 2,) where the first phrases of each length start


class ScoreTable(NamedTuple):
    """All that scoring one query needs; L is the longest identifier, M the shortlist."""

    places: Places  # of phrases in the shortlist
    gains: Float32  # (S, M) what a phrase adds in a slot; one row where slots do not matter
    best: Float32  # (M,) the most that a phrase can add
    is_ordered: bool  # the phrase of depth t is scored in slot t, else in row 0
    is_assigned: bool  # phrases choose slots, no slot twice; row-wise sums are bounds then
    floor: float  # added by a phrase outside the shortlist; NaN: there must be none
    rest: Float64  # (L + 1, L + 1) [n, t]: the most that the phrases of depth t to n - 1 add
    others: Float64  # (L + 1,) the most that n - 1 phrases of n add
    is_legal: NDArray[np.bool_]  # (L + 1,) whether identifiers of n phrases are looked at
    offsets: Float64  # (L + 1,) added to the sum of n phrases
    divisors: Float64  # (L + 1,) by which that is divided, unless there are norms
    norms: Float32  # (N,) by which the sum of an identifier is divided, or empty
    norm_limits: Float64  # (L + 1, 2) least and largest norm of n phrases


class Kept(NamedTuple):
    """The best identifiers so far: a heap with the worst on top."""

    scores: Float32  # (depth,)
    rows: Int64  # (depth,)
    size: Int64  # (1,) how many there are
    needs: Float64  # (L + 1,) the least sum with which an identifier of n phrases may be kept


@njit(cache=True, nogil=True)
def make_kept(table: ScoreTable, depth: int, threshold: float) -> Kept:
    """Start with nothing kept; whatever scores below the threshold will not be."""
    kept = Kept(
        np.empty(depth, dtype=np.float32),
        np.empty(depth, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.empty(len(table.divisors), dtype=np.float64),
    )
    _set_needs(kept.needs, table, threshold)
    return kept


@njit(cache=True, nogil=True)
def _set_needs(needs: Float64, table: ScoreTable, threshold: float) -> None:
    """Say which sums are good enough, a little too low rather than too high."""
    for length in range(len(needs)):
        if not table.is_legal[length]:
            needs[length] = np.inf
        elif threshold == -np.inf:
            needs[length] = -np.inf
        else:
            if len(table.norms):
                need = threshold * table.norm_limits[length, 0 if threshold > 0.0 else 1]
            else:
                need = threshold * table.divisors[length] - table.offsets[length]
            scale = abs(need) + abs(table.offsets[length]) + abs(table.others[length])
            needs[length] = need - _SLACK * (scale + abs(table.rest[length, 0]))


@njit(cache=True, nogil=True)
def bound_score(table: ScoreTable, length: int, total: float) -> float:
    """Return the best score that an identifier with this sum, or a lower one, can have."""
    if len(table.norms):
        return float(total / table.norm_limits[length, 0 if total > 0.0 else 1])
    return float((total + table.offsets[length]) / table.divisors[length])


@njit(cache=True, nogil=True)
def try_rows(lookup: Lookup, table: ScoreTable, kept: Kept, rows: Int64) -> None:
    """Score identifiers, each as far as it stays promising, and keep those among the best.

    Rows come many at a time, in steps that each ask memory for what the next one reads.
    """
    tried = _locate(lookup, rows)
    if np.isnan(table.floor):
        tried = _drop_incomplete(lookup.phrase_ids, table.places.words, tried)
    tried, totals = _sum_up(lookup.phrase_ids, table, kept.needs, tried)
    norms, needs, best, is_full = (
        table.norms,
        kept.needs,
        kept.scores,
        kept.size[0] == len(kept.rows),
    )
    for at in range(len(totals)):
        row, length, total = tried.rows[at], tried.lengths[at], totals[at]
        if total < needs[length]:
            continue
        if table.is_assigned:
            start = tried.starts[at]
            total = _sum_assigned(lookup.phrase_ids[start : start + length], table)
        if len(norms):
            score = np.float32(total / norms[row])
        else:
            score = np.float32((total + table.offsets[length]) / table.divisors[length])
        if not is_full or score >= best[0]:  # asked here, since calls with so many arrays cost
            is_full = _offer(kept, table, score, row)


class _Tried(NamedTuple):
    """Identifiers that are looked at, where each starts, and how long it is."""

    rows: Int64
    starts: Int64
    lengths: Int64


@njit(cache=True, nogil=True)
def _locate(lookup: Lookup, rows: Int64) -> _Tried:
    """Find where identifiers stand, and ask for their phrases."""
    phrase_ids, block_lengths = lookup.phrase_ids, lookup.block_lengths
    length_rows, length_starts = lookup.length_rows, lookup.length_starts
    starts, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for at in range(len(rows)):
        length = block_lengths[rows[at] >> BLOCK_BITS]
        while rows[at] >= length_rows[length + 1]:  # seldom: there are fewer lengths than blocks
            length += 1
        start = length_starts[length] + (rows[at] - length_rows[length]) * length
        prefetch(phrase_ids, start * 4)
        prefetch(phrase_ids, (start + length - 1) * 4)
        starts[at], lengths[at] = start, length
    return _Tried(rows.copy(), starts, lengths)


@njit(cache=True, nogil=True)
def _drop_incomplete(phrase_ids: Int32, words: Words, tried: _Tried) -> _Tried:
    """Leave out identifiers whose first, middle or last phrase is outside the shortlist.

    Most end here, where no branch has to be guessed.
    """
    rows, starts, lengths = tried
    count = np.int64(0)
    for at in range(len(rows)):
        start, length = starts[at], lengths[at]
        first, last = phrase_ids[start], phrase_ids[start + length - 1]
        middle = phrase_ids[start + (length >> 1)]
        rows[count], starts[count], lengths[count] = rows[at], start, length
        count += has_bit(words, first) & has_bit(words, middle) & has_bit(words, last)
    return _Tried(rows[:count], starts[:count], lengths[:count])


@njit(cache=True, nogil=True)
def _sum_up(
    phrase_ids: Int32, table: ScoreTable, needs: Float64, tried: _Tried
) -> tuple[_Tried, Float64]:
    """Add up phrases, leaving out identifiers whose sum can no longer be good enough."""
    rows, starts, lengths = tried
    words, before = table.places
    gains, best, rest, norms = table.gains, table.best, table.rest, table.norms
    floor, is_ordered = table.floor, table.is_ordered
    totals = np.empty(len(rows))
    count = 0
    for at in range(len(rows)):
        row, start, length = rows[at], starts[at], lengths[at]
        total, is_good = 0.0, True
        for depth in range(length):
            phrase_id = phrase_ids[start + depth]
            if has_bit(words, phrase_id):
                place = count_before(words, before, phrase_id)
                total += gains[depth, place] if is_ordered else best[place]
            else:
                total += floor  # NaN, and thus never good, where no phrase may be missing
            if not total + rest[length, depth + 1] >= needs[length]:
                is_good = False
                break
        if is_good:
            if len(norms):
                prefetch(norms, row * 4)
            rows[count], starts[count], lengths[count], totals[count] = row, start, length, total
            count += 1
    return _Tried(rows[:count], starts[:count], lengths[:count]), totals[:count]


# --- the best so far -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _is_worse(kept: Kept, one: int, other: int) -> bool:
    if kept.scores[one] != kept.scores[other]:
        return bool(kept.scores[one] < kept.scores[other])
    return bool(kept.rows[one] > kept.rows[other])


@njit(cache=True, nogil=True)
def _swap(kept: Kept, one: int, other: int) -> None:
    kept.scores[one], kept.scores[other] = kept.scores[other], kept.scores[one]
    kept.rows[one], kept.rows[other] = kept.rows[other], kept.rows[one]


@njit(cache=True, nogil=True)
def _offer(kept: Kept, table: ScoreTable, score: np.float32, row: int) -> bool:
    """Keep an identifier if it is among the best; once all places are taken, the worst goes.

    Gives whether they are.
    """
    size, depth = kept.size[0], len(kept.rows)
    if size < depth:
        at = size
        kept.scores[at], kept.rows[at] = score, row
        kept.size[0] = size + 1
        while at > 0 and _is_worse(kept, at, (at - 1) // 2):
            _swap(kept, at, (at - 1) // 2)
            at = (at - 1) // 2
        if size + 1 == depth:
            _set_needs(kept.needs, table, 0.0 + kept.scores[0])
        return bool(size + 1 == depth)
    if score < kept.scores[0] or (score == kept.scores[0] and row > kept.rows[0]):
        return True
    worst = kept.scores[0]
    kept.scores[0], kept.rows[0] = score, row
    at = 0
    while 2 * at + 1 < depth:
        child = 2 * at + 1
        if child + 1 < depth and _is_worse(kept, child + 1, child):
            child += 1
        if not _is_worse(kept, child, at):
            break
        _swap(kept, child, at)
        at = child
    if kept.scores[0] != worst:
        _set_needs(kept.needs, table, 0.0 + kept.scores[0])
    return True


# --- phrases that choose slots -------------------------------------------------------------------


class _Assignment(NamedTuple):
    """Who holds which slot so far; slots and phrases count from 1, 0 stands for nobody."""

    places: Int64  # (S + 1,) where each phrase stands in the shortlist
    holders: Int64  # (S + 1,) the phrase that holds each slot; slot 0: the one to be placed
    phrase_prices: Float64  # (S + 1,)
    slot_prices: Float64  # (S + 1,)


@njit(cache=True, nogil=True)
def _sum_assigned(phrases: Int32, table: ScoreTable) -> float:
    """Give each phrase a slot of its own so that the sum is largest, and give that sum.

    The Hungarian method by shortest paths (Jonker and Volgenant 1987): phrases are placed one at a
    time, each along the cheapest chain of phrases that move to another slot.
    """
    width = len(table.gains) + 1
    own = _Assignment(
        np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width), np.zeros(width)
    )
    total, placed = 0.0, 0
    for phrase_id in phrases:
        place = find_place(table.places, phrase_id)
        if place < 0:
            total += table.floor
        else:
            placed += 1
            own.places[placed] = place
            own.holders[0] = placed
            _assign(own, table.gains)
    for phrase in range(1, placed + 1):  # in the order of the phrases, as other sums are
        for slot in range(1, width):
            if own.holders[slot] == phrase:
                total += table.gains[slot - 1, own.places[phrase]]
    return total


@njit(cache=True, nogil=True)
def _assign(own: _Assignment, gains: Float32) -> None:
    """Find a slot for the phrase that holds slot 0, moving others where that is cheapest."""
    width = len(own.holders)
    least, before = np.full(width, np.inf), np.zeros(width, np.int64)
    is_used = np.zeros(width, np.bool_)
    slot = 0
    while own.holders[slot] != 0:
        is_used[slot] = True
        phrase = own.holders[slot]
        change, nearest = np.inf, 0
        for other in range(1, width):
            if is_used[other]:
                continue
            cost = -np.float64(gains[other - 1, own.places[phrase]])
            cost -= own.phrase_prices[phrase] + own.slot_prices[other]
            if cost < least[other]:
                least[other], before[other] = cost, slot
            if least[other] < change:
                change, nearest = least[other], other
        for other in range(width):
            if is_used[other]:
                own.phrase_prices[own.holders[other]] += change
                own.slot_prices[other] -= change
            else:
                least[other] -= change
        slot = nearest
    while slot != 0:
        own.holders[slot] = own.holders[before[slot]]
        slot = before[slot]
