"""Find the best identifiers by walking the trie: best first (exact), or with a beam (quick).

Both go from the root of each length to its identifiers, adding what each phrase on the way does. A
state's best outcome is its sum so far and the most that the slots left can add (Hart et al. 1968:
never too low, so nothing is lost); a beam keeps the states with the highest sums at each depth.
Where phrases choose slots or an identifier has a norm, sums on the way are bounds, and the
identifier itself is scored at the end.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numba import njit

from quoth.index.trie.walk import seek
from quoth.search.generative.decode.places import Places, find_place
from quoth.search.generative.decode.scan import order_roughly
from quoth.search.generative.decode.score import (
    Float32,
    Int32,
    Int64,
    Kept,
    Lookup,
    ScoreTable,
    bound_score,
    make_kept,
    try_rows,
)

FIRSTS_APART = 64
"""Of so many identifiers the first phrase of one is listed for quick seeking."""

_FEW = 16  # so many identifiers are scored rather than walked
_FAN = 16  # a beam tries so many phrases per state that it keeps, where many go on


class _Node(NamedTuple):
    """The identifiers `lo` to `hi` of one length, which share their first `level` phrases."""

    lo: int
    hi: int
    length: int
    level: int


@njit(cache=True, nogil=True)
def walk_best_first(
    lookup: Lookup, table: ScoreTable, shortlist: Int32, depth: int, threshold: float
) -> Kept:
    """Follow the most promising state until none can lead to a better identifier.

    `threshold` is a score that `depth` identifiers are known to reach, or minus infinity.
    """
    kept = make_kept(table, depth, threshold)
    everything = np.arange(len(shortlist), dtype=np.int32)
    # negated bound, sum, rows lo to hi, length, depth: an empty list of these
    nodes = [(0.0, 0.0, 0, 0, 0, 0)]
    nodes.pop()
    for length in range(1, len(lookup.length_rows) - 1):
        lo, hi = lookup.length_rows[length], lookup.length_rows[length + 1]
        if table.is_legal[length] and lo < hi:
            bound = bound_score(table, length, table.rest[length, 0])
            heapq.heappush(nodes, (-bound, 0.0, lo, hi, length, 0))
    while len(nodes) > 0:
        _, total, lo, hi, length, level = heapq.heappop(nodes)
        if total + table.rest[length, level] < kept.needs[length]:
            continue
        if hi - lo <= _FEW or level == length:
            try_rows(lookup, table, kept, np.arange(lo, hi))
            continue
        gains = table.gains[level] if table.is_ordered else table.best
        rest = table.rest[length, level + 1]
        least = kept.needs[length] - total - rest
        node = _Node(lo, hi, length, level)
        places, ranges = _branch(lookup, table.places, shortlist, everything, gains, node, least)
        for at in range(len(places)):
            own = total + gains[places[at]]
            bound = bound_score(table, length, own + rest)
            lo, hi = ranges[at]
            heapq.heappush(nodes, (-bound, own, lo, hi, length, level + 1))
    return kept


@njit(cache=True, nogil=True)
def walk_beam(lookup: Lookup, table: ScoreTable, shortlist: Int32, depth: int, beam: int) -> Kept:
    """Keep the states with the highest sums at each depth, for each length by itself."""
    kept = make_kept(table, depth, -np.inf)
    fans = np.full((len(table.gains), min(_FAN * beam, len(shortlist))), -1, dtype=np.int32)
    for length in range(1, len(lookup.length_rows) - 1):
        lo, hi = lookup.length_rows[length], lookup.length_rows[length + 1]
        if table.rest[length, 0] < kept.needs[length] or lo == hi:
            continue
        states = [(0.0, lo, hi)]
        for level in range(length):
            slot = level if table.is_ordered else 0
            if fans.size and fans[slot, 0] < 0:
                scores = table.gains[slot] if table.is_ordered else table.best
                fans[slot] = np.sort(order_roughly(scores)[: fans.shape[1]])
            least = kept.needs[length] - table.rest[length, level + 1]
            states = _advance(
                lookup, table, shortlist, fans[slot], states, length, level, beam, least
            )
        rows = np.array([row for _, row, _ in states], dtype=np.int64)
        try_rows(lookup, table, kept, rows)
    return kept


@njit(cache=True, nogil=True)
def _advance(
    lookup: Lookup,
    table: ScoreTable,
    shortlist: Int32,
    fan: Int32,
    states: list[tuple[float, int, int]],
    length: int,
    level: int,
    beam: int,
    least: float,
) -> list[tuple[float, int, int]]:
    """Go one phrase on from each state, and keep the best; sums are to reach the least."""
    following = [(0.0, 0, 0)]
    following.pop()
    gains = table.gains[level] if table.is_ordered else table.best
    for total, lo, hi in states:
        node = _Node(lo, hi, length, level)
        if len(following) == beam:
            least = max(least, following[0][0])
        places, ranges = _branch(lookup, table.places, shortlist, fan, gains, node, least - total)
        for at in range(len(places)):
            state = (total + gains[places[at]], ranges[at, 0], ranges[at, 1])
            if len(following) < beam:
                heapq.heappush(following, state)
            elif state > following[0]:
                heapq.heapreplace(following, state)
    return following


@njit(cache=True, nogil=True)
def _branch(
    lookup: Lookup,
    known: Places,
    shortlist: Int32,
    fan: Int32,
    gains: Float32,
    node: _Node,
    least: float,
) -> tuple[Int32, Int64]:
    """Return the shortlisted phrases that go on from a state, and the rows each leads to.

    Phrases that add less than `least` are left out, and, where more identifiers than phrases are to
    be looked at, those not in `fan` (places in the shortlist, ascending).
    """
    first = lookup.length_starts[node.length] + node.level
    before, stride = lookup.length_rows[node.length], node.length
    at, end = node.lo - before, node.hi - before
    most = min(node.hi - node.lo, len(shortlist))
    places, ranges = np.empty(most, dtype=np.int32), np.empty((most, 2), dtype=np.int64)
    found = 0
    walks = end - at <= len(fan)
    tried = 0
    while at < end and (walks or tried < len(fan)):
        if walks:
            phrase_id = lookup.phrase_ids[first + at * stride]
            place = find_place(known, phrase_id)
        else:
            place = fan[tried]
            phrase_id = shortlist[place]
            tried += 1
        is_good = place >= 0 and gains[place] >= least
        if not walks and not is_good:
            continue
        if node.level == 0 and not walks:
            at = max(at, _guess(lookup, node.length, phrase_id))
        at = seek(lookup.phrase_ids, first, stride, at, end, phrase_id)
        following = seek(lookup.phrase_ids, first, stride, at, end, phrase_id + 1)
        if is_good and at < following:
            places[found], ranges[found, 0], ranges[found, 1] = (
                place,
                before + at,
                before + following,
            )
            found += 1
        at = following
    return places[:found], ranges[:found]


@njit(cache=True, nogil=True)
def _guess(lookup: Lookup, length: int, phrase_id: int) -> int:
    """Say which identifier of a length comes shortly before those that start with a phrase."""
    own = lookup.firsts[lookup.first_starts[length] : lookup.first_starts[length + 1]]
    return max(0, int(np.searchsorted(own, phrase_id)) - 1) * FIRSTS_APART
