"""The prefixes of a set of sequences, as nodes on flat arrays.

A node stands for one prefix; its parent is the prefix without the last symbol, and has a smaller
number. Going from a node to the next is one look-up in a table of open addressing, keyed by the
node and the symbol. Symbols are bytes (within a word) or numbers of words (within a text).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.phrases.compiled import compiled
from quoth.vocabulary.phrases.text import Ids, Longs

Keys = NDArray[np.uint64]

ROOT = -1
"""The empty prefix, which is no node."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Nodes and the table that leads from one to the next."""

    keys: Keys
    children: Ids
    parents: Ids
    spans: Ids
    """Symbols in the prefix of each node."""


def build_prefixes(symbols: Ids, offsets: Longs) -> tuple[Prefixes, Ids]:
    """Insert sequences in order; gives also the node at which each of them ends."""
    keys, children, parents, spans, ends = _insert_all(symbols, offsets)
    return Prefixes(keys, children, parents, spans), ends


@compiled
def make_key(node: int, symbol: int) -> np.uint64:
    """Join a node and a symbol to a key that is never 0, which marks an empty slot."""
    return np.uint64((node + 2) << 32 | symbol)


@compiled
def hash_key(key: np.uint64) -> int:
    """Spread a key over 32 bits."""
    mixed = (key ^ (key >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return int(mixed >> np.uint64(32))


@compiled
def find_key(keys: Keys, key: np.uint64) -> int:
    """Find the slot of a key, or the empty one where it would stand."""
    mask = len(keys) - 1
    slot = hash_key(key) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@compiled
def grow_table(keys: Keys, values: NDArray[np.int64]) -> tuple[Keys, NDArray[np.int64]]:
    """Copy a table into one of twice the size."""
    more_keys = np.zeros(2 * len(keys), dtype=np.uint64)
    more_values = np.zeros(2 * len(keys), dtype=np.int64)
    for slot in range(len(keys)):
        if keys[slot] != 0:
            place = find_key(more_keys, keys[slot])
            more_keys[place] = keys[slot]
            more_values[place] = values[slot]
    return more_keys, more_values


@compiled
def find_all_deepest(symbols: Ids, offsets: Longs, keys: Keys, children: Ids) -> Ids:
    """Follow every sequence from each of its places as far as there are nodes; -1 for none."""
    deepest = np.full(len(symbols), ROOT, dtype=np.int32)
    for sequence in range(len(offsets) - 1):
        end = offsets[sequence + 1]
        for start in range(offsets[sequence], end):
            for at in range(start, end):
                slot = find_key(keys, make_key(deepest[start], symbols[at]))
                if keys[slot] == 0:
                    break
                deepest[start] = children[slot]
    return deepest


@compiled
def _insert_all(symbols: Ids, offsets: Longs) -> tuple[Keys, Ids, Ids, Ids, Ids]:
    keys = np.zeros(1024, dtype=np.uint64)
    children = np.zeros(1024, dtype=np.int64)
    parents = np.empty(len(symbols), dtype=np.int32)
    spans = np.empty(len(symbols), dtype=np.int32)
    ends = np.empty(len(offsets) - 1, dtype=np.int32)
    count = 0
    for sequence in range(len(offsets) - 1):
        node = ROOT
        for at in range(offsets[sequence], offsets[sequence + 1]):
            key = make_key(node, symbols[at])
            slot = find_key(keys, key)
            if keys[slot] == 0:
                keys[slot], children[slot] = key, count
                parents[count], spans[count] = node, at + 1 - offsets[sequence]
                node = count
                count += 1
                if 2 * count > len(keys):
                    keys, children = grow_table(keys, children)
            else:
                node = children[slot]
        ends[sequence] = node
    return keys, children.astype(np.int32), parents[:count].copy(), spans[:count].copy(), ends
