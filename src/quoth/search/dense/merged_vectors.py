"""Carry the vectors of documents from one dense index to another, where rows are other ones.

They are copied as they are stored, so a document has the same score in both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from quoth.collection.store import Store
from quoth.errors import MissingExtra
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.state import read_state
from quoth.search.dense.record import EncodingRecord
from quoth.search.searcher import Progress

_ROWS_AT_ONCE = 131_072
"""Rows that are copied together, 100 MB of vectors: each copy looks at all that were copied."""


def holds_all(folder: Path, store: Store) -> bool:
    """Whether a dense index holds every document of its collection."""
    state, change = read_state(folder), store.change
    return state is not None and (state.change, state.log) == (change, store.log_digest(change))


def carry_vectors(source: Path, target: Path, *, old: Sequence[int], new: Sequence[int]) -> None:
    """Copy the vectors of rows `old` of one index into another, under the rows `new`."""
    taken, given = _open(source, like=source), _open(target, like=source)
    lengths = EncodingRecord(source).by_row()
    record = EncodingRecord(target)
    were = np.array(old, dtype=np.int64)
    order = np.argsort(were)
    were, are = were[order], np.array(new, dtype=np.int64)[order]
    for start in range(0, len(were), _ROWS_AT_ONCE):
        some = were[start : start + _ROWS_AT_ONCE]
        rows, units, stored = taken.read(some)
        given.add_stored(are[np.searchsorted(were, rows)], units, stored)
        known = [row for row in some.tolist() if row in lengths]
        record.note(
            are[np.searchsorted(were, known)].tolist(),
            [lengths[row][0] for row in known],
            [lengths[row][1] for row in known],
        )


def finish_vectors(
    target: Path, source: Path, store: Store, *, config: DenseConfig, progress: Progress
) -> None:
    """Record that an index, filled from others like `source`, holds every document of a store.

    Where settings ask for a graph or codes they are built, if FAISS is there to do it.
    """
    index, change = _open(target, like=source, config=config), store.change
    log = store.log_digest(change)
    index.compact()
    with contextlib.suppress(MissingExtra):
        index.build_approximate_if_due(progress=progress)
    EncodingRecord(target).begin(change, log=log)
    index.record_change(change, log=log)


def _open(folder: Path, *, like: Path, config: DenseConfig | None = None) -> DenseIndex:
    state = read_state(like)
    assert state is not None  # `holds_all` has seen it
    chosen = replace(config or DenseConfig(), storage=state.storage)
    return DenseIndex.open(folder, model=state.model, config=chosen)
