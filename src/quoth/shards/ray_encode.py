"""`quoth encode --ray`: vectors are made on a cluster and written here, chunk by chunk.

Workers open the collection themselves, read-only, and encode the same chunks of documents in the
same batches as without a cluster, so the vectors are the same wherever processors are. Whoever
writes them holds the lock all the time; killed, it resumes where it stopped. What follows, fusing,
is found out here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quoth.cluster.mapping import map_in_order
from quoth.collection.schema import require_collection
from quoth.collection.shards import is_sharded
from quoth.collection.store import FILE_NAME, Store
from quoth.engine.engine import Engine
from quoth.models.glow.encoded import Encoded
from quoth.search.dense.filling import EncodedChunk, Stage
from quoth.search.dense.searcher import DenseSearcher
from quoth.search.searcher import Progress
from quoth.settings.config import Values
from quoth.shards.engine import ShardedEngine
from quoth.shards.port import ShardEngine

Note = Callable[[str], None]
"""Told what a user should know."""

_FAILURES = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class _Made:
    """A chunk, and the rows of it that could not be encoded."""

    chunk: EncodedChunk
    failed: tuple[tuple[int, str], ...]


class _FillingEngine(Engine):
    """A collection whose vectors are made elsewhere."""

    def fill(self, note: Note) -> None:
        """Give every document its vectors, those of another model made anew."""
        with self._locked(), contextlib.closing(Store.create(self.folder)) as store:
            searchers = self.make_searchers(store, self._require_stored_settings(store))
            searchers.lexical(syntax=False).catch_up(store, progress=self._progress)
            dense = searchers.dense_side()
            if dense.is_foreign():
                dense.discard()
            make = functools.partial(_open_worker, type(self), self.folder.resolve(), self._given)

            def encode(chunks: Sequence[Sequence[int]], stage: Stage) -> Iterator[EncodedChunk]:
                for made in map_in_order(make, [(rows, stage) for rows in chunks]):
                    _tell_failed(made, store, note)
                    yield made.chunk

            dense.fill(store, encode=encode, progress=self._progress)
            searchers.close()

    def opened_dense(self) -> tuple[Store, DenseSearcher]:
        """Return the store and the searcher whose encoder a worker uses."""
        store = self._reader()
        return store, self._searchers.dense_side()


class _FillingShard(_FillingEngine, ShardEngine):
    """A shard whose vectors are made elsewhere, with the statistics of all shards."""


def fill_vectors(
    folder: Path, *, settings: Sequence[Values], progress: Progress, note: Note
) -> None:
    """Make the vectors that a collection lacks on the cluster that is joined."""
    if is_sharded(folder):
        with ShardedEngine.open(folder, settings=settings, progress=progress) as engine:
            shards = engine.shards  # opening exchanges the statistics, which weights need
        for path in shards.shards:
            with _FillingShard.open(path, settings=settings, progress=progress) as shard:
                shard.fill(note)
        return
    require_collection(folder, FILE_NAME)
    with _FillingEngine.open(folder, settings=settings, progress=progress) as engine:
        engine.fill(note)


def _open_worker(
    kind: type[_FillingEngine], folder: Path, settings: Sequence[Values]
) -> Callable[[tuple[Sequence[int], Stage]], _Made]:
    """Open a collection on the machine of a worker; the encoder is loaded once."""
    store, dense = kind.open(folder, settings=settings).opened_dense()
    return lambda wanted: _encode_safely(dense, store, *wanted)


def _encode_safely(dense: DenseSearcher, store: Store, rows: Sequence[int], stage: Stage) -> _Made:
    """Encode a chunk; where that fails, row by row, to find out which are to blame.

    Those get a vector of zeros, which is near to nothing, so that they are not tried for ever.
    """
    try:
        return _Made(dense.encode_chunk(store, rows, stage), ())
    except _FAILURES:
        chunks, failed = [], []
        for row in rows:
            try:
                chunks.append(dense.encode_chunk(store, [row], stage))
            except _FAILURES as error:
                failed.append((row, str(error)))
        zeros = _zeros([row for row, _why in failed], stage, width=dense.width)
        return _Made(_join([*chunks, zeros]), tuple(failed))


def _zeros(rows: Sequence[int], stage: Stage, *, width: int) -> EncodedChunk:
    """Make what stands for rows that could not be encoded."""
    none = (0,) * len(rows)
    vectors = np.zeros((len(rows), width), dtype=np.float32)
    return EncodedChunk(tuple(rows), (stage.start,) * len(rows), Encoded(vectors, none, none))


def _join(chunks: Sequence[EncodedChunk]) -> EncodedChunk:
    return EncodedChunk(
        tuple(row for each in chunks for row in each.rows),
        tuple(unit for each in chunks for unit in each.units),
        Encoded(
            np.concatenate([each.encoded.vectors for each in chunks]),
            tuple(count for each in chunks for count in each.encoded.lengths),
            tuple(count for each in chunks for count in each.encoded.cuts),
        ),
    )


def _tell_failed(made: _Made, store: Store, note: Note) -> None:
    docids = store.docids([row for row, _why in made.failed])
    for row, why in made.failed:
        note(f"document {docids[row]!r} cannot be encoded and is not found by vectors: {why}")
