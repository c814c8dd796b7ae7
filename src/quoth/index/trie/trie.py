"""The legal identifiers as a trie without nodes: sorted sequences, and who owns each.

Identifiers are sorted by length, then by their phrase ids, and stand in one flat array that is
mapped into memory. Those of one length share a stride, so no offsets are stored, and a score that
is divided by the length has one divisor in each of these tries. A node is a `State`: the range of
rows that share a prefix, and how long that prefix is. There is one root per length.

Two lists stand beside the sequences. Postings say which rows of a collection own an identifier,
many to many. And each identifier is listed under its rarest phrase, with its second rarest beside
it: whoever wants all identifiers that are made of some phrases alone need look at no others than
those listed under these phrases, and among them only at those whose second one is wanted too.

    phrase_ids     int32  the identifiers, one after the other
    length_rows    int64  the identifiers of n phrases are rows length_rows[n] to length_rows[n + 1]
    owner_starts          row r is owned by owners[owner_starts[r] : owner_starts[r + 1]], sorted
    owners
    rarest_starts  int32  under phrase p stand entries rarest_starts[p] to rarest_starts[p + 1]
    rarest_pairs   uint16 three for each entry: a row, and as much of a phrase as fits

Owners and their starts are stored in int32 where that is enough, else in int64. An entry's 48 bits
hold a row in as many as the largest needs; above it the phrase, less its lowest bits if it must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.index.trie.walk import Integers, PhraseIds, find_rows, seek

ARRAYS = (
    "phrase_ids",
    "length_rows",
    "owner_starts",
    "owners",
    "rarest_starts",
    "rarest_pairs",
)
"""The arrays a trie is made of."""


class State(NamedTuple):
    """A node: the identifiers `lo` to `hi`, all of one length, share their first `depth` phrases.

    Narrowed by every phrase of an identifier, it holds that one row. No rows: no such identifier.
    """

    lo: int
    hi: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Phrase ids, one sequence after the other: the i-th is ids[offsets[i] : offsets[i + 1]]."""

    ids: PhraseIds
    offsets: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Who owns each of some identifiers: the i-th is owned by rows[offsets[i] : offsets[i + 1]]."""

    rows: Integers
    offsets: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """Sorted distinct identifiers with their owners; see the module for the arrays."""

    phrase_ids: PhraseIds
    length_rows: Integers
    owner_starts: NDArray[np.signedinteger[Any]]
    owners: NDArray[np.signedinteger[Any]]
    rarest_starts: PhraseIds
    rarest_pairs: NDArray[np.uint16]
    num_owners: int

    def __len__(self) -> int:
        return int(self.length_rows[-1])

    @property
    def num_phrases(self) -> int:
        """Size of the phrase vocabulary."""
        return len(self.rarest_starts) - 1

    @property
    def longest(self) -> int:
        """Most phrases that an identifier has."""
        return len(self.length_rows) - 2

    def length(self, row: int) -> int:
        """Count the phrases of an identifier."""
        return int(np.searchsorted(self.length_rows, row, side="right")) - 1

    def narrow(self, state: State, phrase_id: int) -> State:
        """Keep the identifiers that go on with a phrase."""
        if self._ends(state):
            return State(state.hi, state.hi, state.depth + 1)
        first, stride, before = self._column(state)
        lo, hi = state.lo - before, state.hi - before
        found = seek(self.phrase_ids, first, stride, lo, hi, phrase_id)
        end = seek(self.phrase_ids, first, stride, found, hi, phrase_id + 1)
        return State(before + found, before + end, state.depth + 1)

    def children(self, state: State) -> Iterator[tuple[int, State]]:
        """Return each phrase that goes on from a state, in order, and where it leads."""
        if self._ends(state):
            return
        first, stride, before = self._column(state)
        lo, hi = state.lo - before, state.hi - before
        while lo < hi:
            phrase_id = int(self.phrase_ids[first + lo * stride])
            end = seek(self.phrase_ids, first, stride, lo, hi, phrase_id + 1)
            yield phrase_id, State(before + lo, before + end, state.depth + 1)
            lo = end

    def find(self, sequences: Sequences) -> Integers:
        """Find the row of each sequence, -1 where it is no identifier."""
        ids = np.ascontiguousarray(sequences.ids, dtype=np.int32)
        offsets = np.ascontiguousarray(sequences.offsets, dtype=np.int64)
        starts = find_length_starts(self.length_rows)
        return find_rows(self.phrase_ids, self.length_rows, starts, ids, offsets)

    def sequences(self, rows: Integers) -> Sequences:
        """Read the phrases of some identifiers."""
        lengths = np.searchsorted(self.length_rows, rows, side="right") - 1
        starts = find_length_starts(self.length_rows)[lengths]
        starts += (rows - self.length_rows[lengths]) * lengths
        places, offsets = spread(starts, lengths)
        return Sequences(self.phrase_ids[places], offsets)

    def postings(self, rows: Integers) -> Postings:
        """Read who owns some identifiers."""
        starts = self.owner_starts[rows].astype(np.int64)
        places, offsets = spread(starts, self.owner_starts[rows + 1] - starts)
        return Postings(self.owners[places].astype(np.int64), offsets)

    def _ends(self, state: State) -> bool:
        """Say whether nothing goes on from a state: complete, or no identifier at all."""
        return state.lo >= state.hi or state.depth >= self.length(state.lo)

    def _column(self, state: State) -> tuple[int, int, int]:
        """Say where a state's next phrases stand: place of the first, stride, rows before."""
        stride = self.length(state.lo)
        start = find_length_starts(self.length_rows)[stride]
        return int(start) + state.depth, stride, int(self.length_rows[stride])


def find_length_starts(length_rows: Integers) -> Integers:
    """Say where in the flat array the identifiers of each length start, and where the last end.

    >>> find_length_starts(np.array([0, 0, 3, 5]))  # three identifiers of 1 phrase, two of 2
    array([0, 0, 3, 7])
    """
    sizes = np.diff(length_rows) * np.arange(len(length_rows) - 1)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def spread(starts: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """List start, start + 1 … of each stretch, one stretch after the other, and where each begins.

    >>> spread(np.array([5, 1]), np.array([2, 1]))
    (array([5, 6, 1]), array([0, 2, 3]))
    """
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    places = np.arange(offsets[-1], dtype=np.int64)
    places += np.repeat(starts - offsets[:-1], counts)
    return places, offsets
