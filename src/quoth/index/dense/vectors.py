"""The stored vectors of all segments, memory-mapped and addressed by place.

A place counts vectors through the segments in order: it says where a vector lies on disk, while row
and unit say what it is of. Compaction moves places; it never changes their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.index.dense.files import map_array
from quoth.index.dense.state import DenseState
from quoth.index.dense.storage import CODE_TYPES, Codes, Floats, widen
from quoth.interruption import check_interruption

LABEL = np.dtype([("row", "<i8"), ("unit", "<i4"), ("scale", "<f4")])
"""What is stored beside each vector."""

KEPT_BYTES = 1 << 25
"""Vectors that take no more as float32 are kept so once all were searched: a scan needs a third of
the time then."""

_FEW = 64
"""Of so many places for each row that is wanted, it is looked for; else all are compared."""

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

Labels = NDArray[Any]
Places = NDArray[np.int64]
"""Places, sorted, each once."""


class Block(NamedTuple):
    """Some stored vectors of one segment."""

    places: Places  # (N,)
    codes: Codes  # (N, D)
    labels: Labels  # (N,)
    wide: Floats | None = None  # (N, D)
    """The codes as float32, where they are kept."""


class StoredVectors:
    """All vectors of one state, dead ones included."""

    def __init__(self, folder: Path, state: DenseState) -> None:
        dtype = CODE_TYPES[state.storage]
        self.width = state.width
        self.longest = max((each.longest for each in state.segments), default=0.0)
        self._codes, self._labels = [], []
        for each in state.segments:
            shape, seals = (each.num_vectors, state.width), state.files
            codes = folder / each.codes_name
            self._codes.append(map_array(codes, seals[codes.name], dtype=dtype, shape=shape))
            labels = folder / each.labels_name
            self._labels.append(map_array(labels, seals[labels.name], dtype=LABEL, shape=shape[:1]))
        self._starts = np.cumsum([0, *(each.num_vectors for each in state.segments)])
        self._wide: dict[int, Floats] = {}
        self._keeps_wide = 4 * state.width * len(self) <= KEPT_BYTES

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of every place, read on first use."""
        parts = [each["row"] for each in self._labels]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def places_of(self, rows: NDArray[np.int64]) -> Places:
        """Find the places of some rows; of few rows, without looking at every place."""
        if _FEW * len(rows) > len(self):
            return np.flatnonzero(np.isin(self.rows, rows))
        by_row, order = self._by_row
        wanted = np.unique(rows)
        starts, ends = (np.searchsorted(by_row, wanted, side) for side in _SIDES)
        counts = ends - starts
        before = np.cumsum(counts) - counts
        found = np.arange(counts.sum()) + np.repeat(starts - before, counts)
        return np.sort(found if order is None else order[found])

    @cached_property
    def _by_row(self) -> tuple[NDArray[np.int64], Places | None]:
        """All rows, sorted, and the place of each; None where that is its number, as is usual."""
        if (self.rows[1:] >= self.rows[:-1]).all():
            return self.rows, None
        order = np.argsort(self.rows, kind="stable")
        return self.rows[order], order

    def blocks(self, places: Places, *, num_vectors: int) -> Iterator[Block]:
        """Read the vectors at some places, at most `num_vectors` at a time, in order."""
        bounds = np.searchsorted(places, self._starts)
        for number, start in enumerate(self._starts[:-1]):
            inside = places[bounds[number] : bounds[number + 1]]
            for at in range(0, len(inside), num_vectors):
                check_interruption()
                chosen = inside[at : at + num_vectors]
                where = _slice_where_dense(chosen - start)
                codes, labels = self._codes[number][where], self._labels[number][where]
                yield Block(chosen, codes, labels, self._widened(number, where))

    def _widened(self, number: int, where: slice | Places) -> Floats | None:
        """Return a stretch as float32; few enough vectors are kept so once most are asked for."""
        if not self._keeps_wide or not isinstance(where, slice):
            return None
        if number not in self._wide:
            if 2 * (where.stop - where.start) < len(self._codes[number]):
                return None
            self._wide[number] = widen(self._codes[number])
        return self._wide[number][where]


def _slice_where_dense(places: Places) -> slice | Places:
    """Name neighbouring places as a slice, which numpy does not copy."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places
