"""Find every sequence of symbols that occurs often enough, level by level.

Level n holds the sequences of n symbols. One of n + 1 symbols counts only where both of its parts
of n symbols were kept (Apriori), so each place needs no more than the number of the sequence kept
there on the level before. Sequences are known by (parent, last symbol): exact, no hash collisions.

Memory stays bounded: a level is counted in parts, each with a table of its own of at most
`_PART` places, and workers have different parts. The result does not depend on either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from quoth.vocabulary.phrases.compiled import compiled
from quoth.vocabulary.phrases.prefixes import (
    ROOT,
    Keys,
    find_key,
    grow_table,
    hash_key,
    make_key,
)
from quoth.vocabulary.phrases.text import Ids, Longs
from quoth.vocabulary.phrases.workers import Workers

Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, what is done of it, and what there is to do in all."""

_PART = 1 << 23


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences of symbols in one array, each counted as often as its weight says."""

    symbols: Ids
    offsets: Longs
    weights: Longs

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sequence of symbols must meet to be kept."""

    min_count: int
    max_span: int
    max_length: int
    lengths: Ids
    """Characters of each symbol; 0 for one that only ends a character."""
    joinable: Ids
    """1 for each symbol that may stand in a sequence, else 0."""


@dataclass(frozen=True, slots=True)
class Grams:
    """The sequences kept, as nodes (a parent before its children), and where they occur."""

    parents: Ids
    symbols: Ids
    counts: Longs
    spans: Ids
    lengths: Ids
    deepest: Ids
    """For each place, the node of the longest kept sequence that starts there, or -1."""


def count_grams(
    sequences: Sequences,
    limits: Limits,
    *,
    workers: Workers,
    report: Callable[[int], None] = lambda level: None,
) -> Grams:
    """Keep the sequences of at most `max_span` symbols that occur often enough."""
    counts = count_symbols(sequences, len(limits.lengths))
    kept = np.flatnonzero(
        (counts >= limits.min_count) & (limits.joinable > 0) & (limits.lengths <= limits.max_length)
    ).astype(np.int32)
    levels = [_Level(np.full(len(kept), ROOT, np.int32), kept, counts[kept], limits.lengths[kept])]
    node_by_symbol = np.full(len(counts), ROOT, dtype=np.int32)
    node_by_symbol[kept] = np.arange(len(kept), dtype=np.int32)
    current = node_by_symbol[sequences.symbols]
    deepest = current.copy()
    for span in range(1, limits.max_span):
        report(span)
        level = _extend(sequences, limits, levels, current, span=span, workers=workers)
        if not len(level.symbols):
            break
        first = sum(len(each.symbols) for each in levels)
        _advance_all(sequences, level, current, deepest, span=span, first=first, workers=workers)
        levels.append(level)
    return _join_levels(levels, deepest)


@dataclass(frozen=True, slots=True)
class _Level:
    parents: Ids
    symbols: Ids
    counts: Longs
    lengths: Ids


def _join_levels(levels: list[_Level], deepest: Ids) -> Grams:
    spans = [np.full(len(each.symbols), at, np.int32) for at, each in enumerate(levels, 1)]
    return Grams(
        np.concatenate([each.parents for each in levels]),
        np.concatenate([each.symbols for each in levels]),
        np.concatenate([each.counts for each in levels]),
        np.concatenate(spans),
        np.concatenate([each.lengths for each in levels]),
        deepest,
    )


def _extend(
    sequences: Sequences,
    limits: Limits,
    levels: list[_Level],
    current: Ids,
    *,
    span: int,
    workers: Workers,
) -> _Level:
    """Count the sequences one symbol longer than those of the last level, and keep the frequent."""
    places = int(np.count_nonzero(current >= 0))
    parts = max(workers.count, math.ceil(places / _PART))
    counted = workers.map(
        _count_part,
        [(part, parts, span, limits.min_count) for part in range(parts)],
        kept=(sequences.symbols, sequences.offsets, sequences.weights),
        shared=(current,),
    )
    keys = np.concatenate([each for each, _ in counted])
    counts = np.concatenate([each for _, each in counted])
    order = np.argsort(keys)  # the order does not depend on the parts
    keys, counts = keys[order], counts[order]
    parents = (keys >> np.uint64(32)).astype(np.int32) - 2
    symbols = (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
    before = sum(len(each.symbols) for each in levels[:-1])
    lengths = levels[-1].lengths[parents - before] + limits.lengths[symbols]
    kept = lengths <= limits.max_length
    return _Level(parents[kept], symbols[kept], counts[kept], lengths[kept])


def _advance_all(
    sequences: Sequences,
    level: _Level,
    current: Ids,
    deepest: Ids,
    *,
    span: int,
    first: int,
    workers: Workers,
) -> None:
    """Move every place on to the sequence kept there on this level, or to none."""
    keys, children = _index_level(level.parents, level.symbols, first)

    shares = share_out(sequences.offsets, workers.count)
    moved = workers.map(
        _advance_share,
        [(start, end, span) for start, end in shares],
        kept=(sequences.symbols, sequences.offsets),
        shared=(current, deepest, keys, children),
    )
    for (start, end), (own, own_deepest) in zip(shares, moved, strict=True):
        places = slice(sequences.offsets[start], sequences.offsets[end])
        current[places], deepest[places] = own, own_deepest


def _advance_share(
    share: tuple[int, int, int],
    symbols: Ids,
    offsets: Longs,
    current: Ids,
    deepest: Ids,
    keys: Keys,
    children: Ids,
) -> tuple[Ids, Ids]:
    """Move the places of a run of sequences on; gives them as they are then."""
    start, end, span = share
    places = slice(offsets[start], offsets[end])
    own, own_deepest = current[places].copy(), deepest[places].copy()
    own_offsets = offsets[start : end + 1] - offsets[start]
    _advance(symbols[places], own_offsets, own, own_deepest, span, keys, children)
    return own, own_deepest


def share_out(offsets: Longs, parts: int) -> list[tuple[int, int]]:
    """Divide sequences into runs of about equally many symbols.

    >>> share_out(np.array([0, 4, 5, 6, 8]), 2)
    [(0, 1), (1, 4)]
    """
    bounds = np.searchsorted(offsets, np.linspace(0, offsets[-1], parts + 1)[1:-1])
    edges = [0, *(int(each) for each in bounds), len(offsets) - 1]
    return [(min(start, end), end) for start, end in pairwise(edges)]


def count_symbols(sequences: Sequences, num_symbols: int) -> Longs:
    """Count each symbol over all sequences."""
    return _count_symbols(sequences.symbols, sequences.offsets, sequences.weights, num_symbols)


@compiled
def _count_symbols(symbols: Ids, offsets: Longs, weights: Longs, num_symbols: int) -> Longs:
    counts = np.zeros(num_symbols, dtype=np.int64)
    for sequence in range(len(offsets) - 1):
        for at in range(offsets[sequence], offsets[sequence + 1]):
            counts[symbols[at]] += weights[sequence]
    return counts


def _count_part(
    task: tuple[int, int, int, int], symbols: Ids, offsets: Longs, weights: Longs, current: Ids
) -> tuple[Keys, Longs]:
    """Count the sequences whose key falls to one part; give the frequent ones, in any order."""
    return _count_keys(task, symbols, offsets, weights, current)


@compiled
def _count_keys(
    task: tuple[int, int, int, int], symbols: Ids, offsets: Longs, weights: Longs, current: Ids
) -> tuple[Keys, Longs]:
    part, parts, span, min_count = task
    keys = np.zeros(1 << 12, dtype=np.uint64)
    counts = np.zeros(1 << 12, dtype=np.int64)
    num_keys = 0
    for sequence in range(len(offsets) - 1):
        for at in range(offsets[sequence], offsets[sequence + 1] - span):
            if current[at] < 0 or current[at + 1] < 0:
                continue
            key = make_key(current[at], symbols[at + span])
            if (hash_key(key) * parts) >> 32 != part:  # by the high bits: slots use the low ones
                continue
            slot = find_key(keys, key)
            if keys[slot] == 0:
                keys[slot] = key
                num_keys += 1
                if 2 * num_keys > len(keys):
                    keys, counts = grow_table(keys, counts)
                    slot = find_key(keys, key)
            counts[slot] += weights[sequence]
    kept = np.flatnonzero(counts >= min_count)
    return keys[kept], counts[kept]


@compiled
def _index_level(parents: Ids, symbols: Ids, first: int) -> tuple[Keys, Ids]:
    size = 1024
    while size < 2 * len(parents):
        size *= 2
    keys = np.zeros(size, dtype=np.uint64)
    children = np.zeros(size, dtype=np.int32)
    for at in range(len(parents)):
        key = make_key(parents[at], symbols[at])
        slot = find_key(keys, key)
        keys[slot] = key
        children[slot] = first + at
    return keys, children


@compiled
def _advance(
    symbols: Ids,
    offsets: Longs,
    current: Ids,
    deepest: Ids,
    span: int,
    keys: Keys,
    children: Ids,
) -> None:
    for sequence in range(len(offsets) - 1):
        end = offsets[sequence + 1]
        for at in range(offsets[sequence], end):  # ascending: the next place is still a level back
            node = ROOT
            if at + span < end and current[at] >= 0 and current[at + 1] >= 0:
                slot = find_key(keys, make_key(current[at], symbols[at + span]))
                if keys[slot] != 0:
                    node = children[slot]
                    deepest[at] = node
            current[at] = node
