"""The dense index: the vectors of one model, by row, kept on disk and searched by inner product.

A document version is a row; its content never changes, so keeping up means adding the units that
are missing and removing the rows that are gone. Each add is one immutable segment, each state one
`artifact.json`, written last: a killed write leaves the state before it, and files that the next
write deletes. Readers map what they opened and keep it. Up to `exact_limit` vectors search is
exact; beyond, a graph (graph.py) or short codes (ivfpq.py) find candidates, which
`build_approximate_if_due` keeps up.

    artifact.json
    segment-000001.codes.npy     numbers as stored, (N, D)
    segment-000001.labels.npy    row, unit and scale of each, (N,)
    removed-000002.npy           rows that no longer count
    graph-000003.faiss           the graph
    ivfpq-000003.faiss           or the codes
    places-000003.npy            which vector each of their nodes stands for
    trained-000003.faiss         centroids of the codes
    block-000004.npy             codes of a build that is not finished
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import (
    FILE_NAME,
    FileSeal,
    find_damage,
    save_artifact,
    sync_folder,
)
from quoth.errors import CollectionError, Damaged, IndexMoved, OutOfFiles
from quoth.index.dense.approximate import open_places
from quoth.index.dense.building import Progress, build_steps
from quoth.index.dense.checks import (
    Rows,
    Units,
    check_batch,
    measure_longest,
    require_same,
)
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.files import (
    explain,
    make_folder,
    sweep,
    write_array,
)
from quoth.index.dense.rank import Found
from quoth.index.dense.scan import block_size
from quoth.index.dense.snapshot import DenseSnapshot
from quoth.index.dense.state import (
    DenseState,
    RemovedEntry,
    SegmentEntry,
    read_state,
)
from quoth.index.dense.storage import CODE_TYPES, Floats, Quantised, dequantise, quantise
from quoth.index.dense.vectors import LABEL, Places

MOST_SEGMENTS = 64
"""Compact once there are more, since each costs every search a little."""

_OPEN_ATTEMPTS = 10
_ROW = np.dtype("<i8")


def _ignore(_what: str, _done: int, _total: int) -> None:
    """Be told of progress, and do nothing."""


class DenseIndex:
    """A dense index, opened at one state; its own writes move it on, those of others do not.

    Writing needs the collection's lock, taken before the index is opened.
    """

    def __init__(self, snapshot: DenseSnapshot, config: DenseConfig) -> None:
        self._folder = snapshot.folder
        self._now = snapshot
        self._config = config

    @classmethod
    def open(cls, folder: Path, *, model: Mapping[str, Any], config: DenseConfig) -> Self:
        """Open the index of a model; nothing is created before the first write."""
        empty = DenseState(model=json.loads(json.dumps(model)), storage=config.storage)
        for _attempt in range(_OPEN_ATTEMPTS):
            state = read_state(folder) or empty
            require_same(folder, state, empty)
            try:
                return cls(DenseSnapshot(folder, state), config)
            except Damaged:
                if (read_state(folder) or empty) == state:
                    raise
        raise IndexMoved(f"a writer kept replacing {folder} while it was opened; search again")

    @property
    def change(self) -> int:
        """Number of the last change of the store that the index holds."""
        return self._now.state.change

    @property
    def log(self) -> str:
        """Digest of the change log up to `change`, as it was recorded."""
        return self._now.state.log

    @property
    def num_vectors(self) -> int:
        """Live vectors."""
        return self._now.state.num_vectors

    @property
    def num_dead(self) -> int:
        """Vectors of removed rows that still take up room."""
        return self._now.state.num_dead

    @property
    def num_segments(self) -> int:
        """Batches of vectors, each of which costs every search a little."""
        return len(self._now.state.segments)

    @property
    def approximate_is_due(self) -> bool:
        """Whether search wants a graph or codes, and they are not there or have fallen behind."""
        return self._now.approximate_is_due(self._config)

    def rows(self) -> Rows:
        """Rows that are held, sorted."""
        return self._now.rows.copy()

    def num_units(self) -> dict[int, int]:
        """Say how many vectors each row has."""
        rows, counts = np.unique(self._now.vectors.rows[self._now.live], return_counts=True)
        return dict(zip(rows.tolist(), counts.tolist(), strict=True))

    def read(self, rows: Rows) -> tuple[Rows, Units, Quantised]:
        """Return the vectors of some rows as they are stored, each with its row and unit."""
        places = self._now.live_places(rows)
        size = max(1, len(places))
        blocks = list(self._now.vectors.blocks(places, num_vectors=size))
        if not blocks:
            none = Quantised(np.empty((0, 0), dtype=np.int8), np.empty(0, dtype=np.float32))
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), none
        labels = np.concatenate([each.labels for each in blocks])
        codes = np.concatenate([each.codes for each in blocks])
        return labels["row"], labels["unit"], Quantised(codes, labels["scale"])

    def nearest_units(
        self, query_vector: Floats, rows: Iterable[int]
    ) -> dict[int, tuple[Floats, list[float]]]:
        """Return, for rows that are held, the vector nearest to a query's, and all cosines with it.

        Cosines are in order of units.
        """
        owners, units, stored = self.read(np.fromiter(rows, dtype=np.int64))
        if not len(owners):
            return {}
        vectors = dequantise(*stored)
        cosines, order = vectors @ query_vector, np.lexsort((units, owners))
        found = {}
        for own in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1):
            best = own[cosines[own].argmax()]
            found[int(owners[best])] = (vectors[best], cosines[own].tolist())
        return found

    def top_k(
        self, query_vectors: Floats, k: int, *, allowed: set[int] | None
    ) -> list[list[Found]]:
        """Find the k best rows of each query, each with its best unit, best first, ties by row.

        Only `allowed` rows count, if given; there are k hits wherever k of them are held.
        """
        queries = np.ascontiguousarray(query_vectors, dtype=np.float32)
        now, width = self._now, self._now.state.width
        if queries.ndim != 2 or (width and queries.shape[1] != width):
            raise ValueError(f"query vectors of shape {queries.shape}, expected (B, {width})")
        if not np.isfinite(queries).all() or k < 1:
            raise ValueError(f"query vectors must be finite and k positive, but k is {k}")
        return now.top_k(queries, k, allowed=allowed, config=self._config)

    def add(self, rows: Rows, units: Units, vectors: Floats) -> None:
        """Add the vectors of further units; durable when it returns."""
        check_batch(rows, units, vectors)
        floats = np.ascontiguousarray(vectors, dtype=np.float32)
        self.add_stored(rows, units, quantise(floats, storage=self._now.state.storage))

    def add_stored(self, rows: Rows, units: Units, stored: Quantised) -> None:
        """Add vectors as another index of the same storage holds them, not rounded again."""
        check_batch(rows, units, stored.codes)
        if len(rows) == 0:
            return
        width = self._now.state.width
        if width and stored.codes.shape[1] != width:
            raise ValueError(f"vectors are {stored.codes.shape[1]} wide, those held {width}")
        if np.isin(rows, self._now.rows).any():
            self._require_new(rows, units)
        longest = measure_longest(stored)
        with self._writing():
            if np.isin(rows, self._now.removed).any():  # else the new ones would count as removed
                self._compact()
            self._append(rows, units, stored, longest=longest)

    def remove(self, rows: Iterable[int]) -> None:
        """Take rows out, durably; rows that are not held are ignored."""
        gone = np.intersect1d(np.fromiter(rows, dtype=np.int64), self._now.rows)
        if len(gone) == 0:
            return
        removed = np.union1d(self._now.removed, gone)
        num_vectors = len(self._now.vectors.places_of(removed))
        with self._writing():
            entry = RemovedEntry(self._number(), len(removed), num_vectors)
            seal = self._write(entry.name, [removed], dtype=_ROW, shape=(len(removed),))
            self._save(entry.number, {entry.name: seal}, removed=entry)

    def record_change(self, change: int, *, log: str = "") -> None:
        """Record, durably, that the index holds everything up to this change of the store."""
        with self._writing():
            self._save(self._now.state.last_number, {}, change=change, log=log)

    def compact_if_due(self) -> bool:
        """Compact where dead vectors or segments have become many; tells whether it did."""
        state = self._now.state
        dead_share = state.num_dead / max(1, state.num_places)
        is_due = dead_share > self._config.compact_share or len(state.segments) > MOST_SEGMENTS
        if is_due:
            self.compact()
        return is_due

    def compact(self) -> None:
        """Rewrite the live vectors, unchanged and in order, as one segment."""
        if len(self._now.state.segments) > 1 or self.num_dead:
            with self._writing():
                self._compact()

    def build_approximate_if_due(self, *, progress: Progress = _ignore) -> bool:
        """Build or extend the graph or the codes where search wants them; tells whether it did.

        Until then, and where FAISS is absent, search is exact. Codes that were being built when
        the process ended are gone on with.
        """
        is_due = self.approximate_is_due
        if is_due:
            self.build_approximate(progress=progress)
        return is_due

    def build_approximate(self, *, progress: Progress = _ignore) -> None:
        """Bring the graph or the codes up to date, whether or not search wants them."""
        if self.num_vectors == 0:
            return
        with self._writing():
            for step in build_steps(self._now, self._config, progress=progress):
                self._save(step.number, step.files, **step.fields)

    def find_damage(self) -> tuple[str, ...]:
        """Read every recorded file, those of graph and codes too, and say what is wrong."""
        try:
            state = read_state(self._folder)
        except OutOfFiles:
            raise
        except CollectionError as error:
            return (str(error),)
        if state is None:
            is_lost = self._now.state != self._blank()
            return (f"{self._folder / FILE_NAME} is missing",) if is_lost else ()
        return find_damage(self._folder, state.to_artifact(), deep=True)

    def _require_new(self, rows: Rows, units: Units) -> None:
        """Refuse units that are held already."""
        places = self._now.live_places(rows)
        blocks = self._now.vectors.blocks(places, num_vectors=max(1, len(places)))
        held = [label for block in blocks for label in block.labels[["row", "unit"]].tolist()]
        if not set(held).isdisjoint(zip(rows.tolist(), units.tolist(), strict=True)):
            raise ValueError("some units are held already; a unit of a row is added once")

    def _blank(self) -> DenseState:
        """The state before the first write."""
        return DenseState(self._now.state.model, self._now.state.storage)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Refuse to write over the work of another, and explain what the disk refuses."""
        if (read_state(self._folder) or self._blank()) != self._now.state:
            raise IndexMoved(f"{self._folder} was changed by another writer; open it again")
        try:
            make_folder(self._folder)
            yield
        except OSError as error:
            with contextlib.suppress(OSError, CollectionError):
                recorded = read_state(self._folder)
                sweep(self._folder, keep=recorded.files if recorded else ())
            raise explain(self._folder, error) from error

    def _number(self) -> int:
        """A number that no recorded file ever had."""
        return self._now.state.last_number + 1

    def _write(
        self, name: str, blocks: Iterable[NDArray[Any]], *, dtype: np.dtype[Any], shape: Any
    ) -> FileSeal:
        return write_array(self._folder / name, blocks, dtype=dtype, shape=shape)

    def _append(self, rows: Rows, units: Units, stored: Quantised, *, longest: float) -> None:
        labels = np.empty(len(rows), dtype=LABEL)
        labels["row"], labels["unit"], labels["scale"] = rows, units, stored.scales
        entry = SegmentEntry(self._number(), len(rows), longest)
        shape = stored.codes.shape
        files = {
            entry.codes_name: self._write(
                entry.codes_name, [stored.codes], dtype=stored.codes.dtype, shape=shape
            ),
            entry.labels_name: self._write(
                entry.labels_name, [labels], dtype=LABEL, shape=shape[:1]
            ),
        }
        segments = (*self._now.state.segments, entry)
        self._save(entry.number, files, segments=segments, width=shape[1])

    def _compact(self) -> None:
        number, places = self._number(), np.flatnonzero(self._now.live)
        entry = SegmentEntry(number, len(places), self._now.vectors.longest)
        files = self._copy(entry, places) if len(places) else {}
        nodes = self._move_nodes(number, files)
        segments, last = (entry,) if len(places) else (), number + (nodes["build"] is not None)
        self._save(last, files, segments=segments, removed=None, **nodes)

    def _copy(self, entry: SegmentEntry, places: Places) -> dict[str, FileSeal]:
        """Write the vectors at some places as a new segment."""
        state, vectors = self._now.state, self._now.vectors
        size, shape = block_size(state.width), (entry.num_vectors, state.width)
        codes = (each.codes for each in vectors.blocks(places, num_vectors=size))
        labels = (each.labels for each in vectors.blocks(places, num_vectors=size))
        dtype = CODE_TYPES[state.storage]
        return {
            entry.codes_name: self._write(entry.codes_name, codes, dtype=dtype, shape=shape),
            entry.labels_name: self._write(entry.labels_name, labels, dtype=LABEL, shape=shape[:1]),
        }

    def _move_nodes(self, number: int, files: dict[str, FileSeal]) -> dict[str, Any]:
        """Tie the nodes of graph and codes to where compaction puts their vectors."""
        state, live = self._now.state, self._now.live
        keeps = self._config.choose_index(self.num_vectors) != "exact"
        entries = {"graph": state.graph, "codes": state.codes, "build": state.build}
        moved: dict[str, Any] = dict.fromkeys(entries)
        for name, entry in entries.items():
            old = open_places(self._folder, state, entry) if keeps and entry else None
            if entry is None or old is None:
                continue
            places = np.where((old >= 0) & live[old], (np.cumsum(live) - 1)[old], -1)
            moved[name] = replace(entry, places_number=number + (name == "build"))
            path = moved[name].places_name
            files[path] = self._write(path, [places], dtype=_ROW, shape=places.shape)
        return moved

    def _save(self, number: int, files: Mapping[str, FileSeal], **changes: Any) -> None:
        """Make a new state the current one, in one step, and delete what it no longer names."""
        before = self._now.state
        after = replace(before, last_number=number, files={**before.files, **files}, **changes)
        sync_folder(self._folder)
        save_artifact(self._folder, after.to_artifact())
        state = DenseState.from_artifact(after.to_artifact())
        self._now = DenseSnapshot(self._folder, state)
        sweep(self._folder, keep=state.files)
