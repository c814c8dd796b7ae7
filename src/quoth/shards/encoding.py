"""Encode the documents of all shards in the batches that they would have in one collection.

In half precision a vector depends a little on what it is encoded with, so only the same batches
give the same vectors. Each shard keeps its own index as ever (`DenseSearcher.fill`), in a thread
that waits for its vectors; they are made here, in the order of rows over all shards.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from quoth.collection.store import Store
from quoth.records import Document, Passage
from quoth.search.searcher import Progress, ignore_progress

if TYPE_CHECKING:
    from quoth.search.dense.filling import EncodedChunk, Stage
    from quoth.search.dense.searcher import DenseSearcher
    from quoth.shards.port import ShardEngine


def encode_together(engines: Sequence[ShardEngine], *, anew: bool, progress: Progress) -> None:
    """Give documents the vectors they lack; with `anew`, where there were none so far, too."""
    with contextlib.ExitStack() as opened:
        found = [opened.enter_context(engine.filling(anew=anew)) for engine in engines]
        sides = [each for each in found if each is not None]
        if sides:
            _Encoding(sides, opened).run(progress)


class _Stopped(Exception):
    """Tells a waiting thread that nothing more will come."""


class _Encoding:
    """Vectors on their way from one encoder to the indexes of several shards."""

    def __init__(
        self, sides: Sequence[tuple[Store, DenseSearcher]], opened: contextlib.ExitStack
    ) -> None:
        self._sides = sides
        self._readers = [  # apart from the stores that the threads use
            opened.enter_context(contextlib.closing(Store.open(store.path.parent)))
            for store, _dense in sides
        ]
        self._queues: list[SimpleQueue[EncodedChunk | _Stopped]] = [SimpleQueue() for _ in sides]
        self._wanted: dict[tuple[Stage, int], Sequence[Sequence[int]]] = {}
        self._told = threading.Condition()

    def run(self, progress: Progress) -> None:
        """Fill every index: the openings of all documents first, then the rest."""
        from quoth.search.dense.filling import Stage

        with ThreadPoolExecutor(len(self._sides), thread_name_prefix="quoth-fill") as pool:
            filling = [
                pool.submit(
                    dense.fill,
                    store,
                    encode=functools.partial(self._feed, at),
                    progress=ignore_progress,
                )
                for at, (store, dense) in enumerate(self._sides)
            ]
            try:
                for stage in Stage:
                    self._wait_until_asked(filling, stage)
                    self._encode_all(stage, progress)
            finally:
                for each in self._queues:
                    each.put(_Stopped())
            failed = [error for each in filling if (error := each.exception())]
            for error in sorted(failed, key=lambda each: isinstance(each, _Stopped)):
                raise error  # the first that is a cause

    def _feed(
        self, at: int, chunks: Sequence[Sequence[int]], stage: Stage
    ) -> Iterator[EncodedChunk]:
        """Tell which rows a shard lacks, and pass on their vectors as they come."""
        with self._told:
            self._wanted[stage, at] = chunks
            self._told.notify()
        for _chunk in chunks:
            made = self._queues[at].get()
            if isinstance(made, _Stopped):
                raise made
            yield made

    def _wait_until_asked(self, filling: Sequence[Future[Any]], stage: Stage) -> None:
        def notify(_future: Future[Any]) -> None:
            with self._told:
                self._told.notify()

        for future in filling:
            future.add_done_callback(notify)
        with self._told:
            self._told.wait_for(
                lambda: all(
                    (stage, at) in self._wanted or each.done() for at, each in enumerate(filling)
                )
            )

    def _encode_all(self, stage: Stage, progress: Progress) -> None:
        """Encode one stage of all documents that lack it."""
        from quoth.search.dense.filling import CHUNK

        with self._told:
            wanted = {at: chunks for (each, at), chunks in self._wanted.items() if each is stage}
        owners = [(row, at) for at, chunks in wanted.items() for chunk in chunks for row in chunk]
        if len({row for row, _at in owners}) < len(owners):  # written apart, and numbered apart
            self._encode_apart(wanted, stage)
            return
        owners.sort()
        made = {at: _Waiting(chunks) for at, chunks in wanted.items()}
        for start in range(0, len(owners), CHUNK):
            progress(stage.value, start, len(owners))
            batch = dict(owners[start : start + CHUNK])
            together = _Together(self._readers, batch)
            encoded = self._sides[0][1].encode_chunk(together, list(batch), stage)
            for at in sorted(set(batch.values())):
                own = {row for row, owner in batch.items() if owner == at}
                for chunk in made[at].take(_select(encoded, own), upto=max(own)):
                    self._queues[at].put(chunk)
        if owners:
            progress(stage.value, len(owners), len(owners))

    def _encode_apart(self, wanted: Mapping[int, Sequence[Sequence[int]]], stage: Stage) -> None:
        """Encode shard by shard, where rows of several shards cannot be told apart."""
        for at, chunks in wanted.items():
            for chunk in chunks:
                made = self._sides[at][1].encode_chunk(self._readers[at], chunk, stage)
                self._queues[at].put(made)


class _Together:
    """The documents of one batch, each read from its shard."""

    def __init__(self, readers: Sequence[Store], owners: dict[int, int]) -> None:
        self._readers = readers
        self._owners = owners

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Map rows to documents."""
        return {row: self._readers[self._owners[row]].documents([row])[row] for row in rows}

    def passages(self, document: Document, row: int) -> tuple[Passage, ...]:
        """List the passages of a document, in order."""
        return self._readers[self._owners[row]].passages(document, row)


class _Waiting:
    """Vectors of one shard, until a chunk of it is complete."""

    def __init__(self, chunks: Sequence[Sequence[int]]) -> None:
        self._last_rows = [chunk[-1] for chunk in chunks]
        self._parts: list[EncodedChunk] = []

    def take(self, stage: EncodedChunk, *, upto: int) -> Iterator[EncodedChunk]:
        """Take in what was encoded up to a row, and give what is complete with it."""
        self._parts.append(stage)
        while self._last_rows and self._last_rows[0] <= upto:
            last, every = self._last_rows.pop(0), _join(self._parts)
            rows = set(every.rows)
            yield _select(every, {row for row in rows if row <= last})
            self._parts = [_select(every, {row for row in rows if row > last})]


def _select(chunk: EncodedChunk, rows: set[int]) -> EncodedChunk:
    at = [place for place, row in enumerate(chunk.rows) if row in rows]
    encoded = chunk.encoded
    return replace(
        chunk,
        rows=tuple(chunk.rows[place] for place in at),
        units=tuple(chunk.units[place] for place in at),
        encoded=replace(
            encoded,
            vectors=encoded.vectors[at],
            lengths=tuple(encoded.lengths[place] for place in at),
            cuts=tuple(encoded.cuts[place] for place in at),
        ),
    )


def _join(parts: Sequence[EncodedChunk]) -> EncodedChunk:
    import numpy as np

    every = [stage.encoded for stage in parts]
    return replace(
        parts[0],
        rows=tuple(row for stage in parts for row in stage.rows),
        units=tuple(unit for stage in parts for unit in stage.units),
        encoded=replace(
            every[0],
            vectors=np.concatenate([each.vectors for each in every]),
            lengths=tuple(length for each in every for length in each.lengths),
            cuts=tuple(cut for each in every for cut in each.cuts),
        ),
    )
