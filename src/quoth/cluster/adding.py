"""Read sources on all machines and write each shard by one process: a streaming Ray Data job.

    sources → documents (many readers) → by shard → one writer per shard

Readers give documents in the order of the sources, so that of two with one docid the first is
kept, as without a cluster. A writer takes what comes to it as it is ready: while it is busy, the
reading waits. A source whose reading is lost with a machine is read again elsewhere; a shard whose
writer is lost is written again from the start, which finds what was written before unchanged.

Writers need no processor of their own by Ray's count, or many shards would leave none to read.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quoth.cluster.connecting import load_ray
from quoth.cluster.failing import plain_errors
from quoth.cluster.mapping import pieces_as_data, unwrap, wrap
from quoth.errors import ClusterError, QuothError
from quoth.records import Located, Problem
from quoth.text.readers.outcomes import Outcome

Read = Callable[[str], Iterator[Outcome]]
"""Reads one source: documents and problems, in order."""

Write = Callable[[int, Iterator[tuple[int, Located]]], Any]
"""Writes the documents of a shard as they come, each with its number among all that are read, and
says what became of them."""

Report = Callable[[Problem], None]
_Piece = tuple[int, bytes]  # the number of its first document, and what is packed

ATTEMPTS = 3
"""How often a shard is begun before its loss is an error."""

_PIECE = 256  # documents that travel together, if they are short
_PIECE_CHARACTERS = 1_000_000
_WAITING = 4  # pieces that wait for a writer
_PROBLEMS = -1  # stands for a shard where problems are told


@dataclass(frozen=True, slots=True)
class AddJob:
    """What is read, and where to: all of it travels to the machines that do it."""

    sources: Sequence[str]
    read: Read
    write: Write
    shard_of: Callable[[str], int]
    shards: Sequence[int]


def add_on_cluster(
    job: AddJob, *, report: Report, progress: Callable[[int], None]
) -> dict[int, Any]:
    """Write the documents of sources into shards; gives what each shard's writer said.

    `report` may raise: then what was read so far is written, and the exception passes through.
    """
    said = _write_once(job, report=report, progress=progress)
    for _again in range(ATTEMPTS - 1):
        left = [shard for shard in job.shards if shard not in said]
        if left:
            again = replace(job, shards=left)
            said |= _write_once(again, report=_tell_nobody, progress=progress)
    lost = [str(shard) for shard in job.shards if shard not in said]
    if lost:
        raise ClusterError(
            f"the machines that wrote shard {', '.join(lost)} were lost {ATTEMPTS} times; what was"
            " written is kept, and the same command goes on"
        )
    return said


def _tell_nobody(_problem: Problem) -> None:
    """Let a problem pass that was told before."""


def _write_once(job: AddJob, *, report: Report, progress: Callable[[int], None]) -> dict[int, Any]:
    """Read everything once; gives what those writers said that were not lost."""
    data = pieces_as_data(job.sources).map_batches(
        _read_sources, fn_args=(job,), batch_size=1, num_cpus=1
    )
    with plain_errors():
        writers = {shard: _Remote(shard, job.write) for shard in job.shards}
        try:
            first = after = 0
            for row in data.iter_rows():
                if row["shard"] != _PROBLEMS:
                    writers[row["shard"]].feed((first, row["packed"]))
                    continue
                first, after = after, after + row["count"]
                progress(after)
                for problem in pickle.loads(row["packed"]):
                    report(problem)
        finally:
            for writer in writers.values():
                writer.end()
            packed = {shard: writer.said() for shard, writer in writers.items()}
    return {shard: unwrap(each) for shard, each in packed.items() if each is not None}


# --- reading -------------------------------------------------------------------------------------


def _read_sources(batch: dict[str, Any], job: AddJob) -> Iterator[dict[str, list[Any]]]:
    """Read sources a piece at a time, each sorted by shard and on its way before the next.

    A row of problems, be it empty, opens a piece and says how many documents it holds.
    """
    for packed in batch["piece"]:
        for piece in _pieces(job.read(pickle.loads(packed))):
            documents = [each for each in piece if isinstance(each, Located)]
            problems = [each for each in piece if isinstance(each, Problem)]
            yield _row(_PROBLEMS, len(documents), problems)
            by_shard: dict[int, list[tuple[int, Located]]] = {}
            for at, located in enumerate(documents):
                by_shard.setdefault(job.shard_of(located.document.docid), []).append((at, located))
            for shard in sorted(by_shard.keys() & set(job.shards)):
                yield _row(shard, len(by_shard[shard]), by_shard[shard])


def _row(shard: int, count: int, content: Sequence[Any]) -> dict[str, list[Any]]:
    return {"shard": [shard], "count": [count], "packed": [pickle.dumps(content)]}


def _pieces(outcomes: Iterable[Outcome]) -> Iterator[list[Outcome]]:
    """Group outcomes by number and by length."""
    piece: list[Outcome] = []
    length = 0
    for outcome in outcomes:
        piece.append(outcome)
        if isinstance(outcome, Located):
            length += sum(len(text) for own in outcome.document.fields.values() for text in own)
        if len(piece) >= _PIECE or length >= _PIECE_CHARACTERS:
            yield piece
            piece, length = [], 0
    if piece:
        yield piece


# --- writing -------------------------------------------------------------------------------------


class _Writer:
    """Writes one shard, in a process of its own: `run` takes what `feed` brings."""

    def __init__(self, shard: int, write: Write) -> None:
        self._shard = shard
        self._write = write
        self._queue: queue.Queue[_Piece | None] = queue.Queue(_WAITING)
        self._over = threading.Event()

    def run(self) -> bytes:
        try:
            return wrap(lambda: self._write(self._shard, self._fed()))
        finally:
            self._over.set()

    def feed(self, piece: _Piece | None) -> bool:
        """Bring a piece, None at the end; waits while the writer is behind. False: it stopped."""
        while not self._over.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(piece, timeout=0.2)
                return True
        return False

    def _fed(self) -> Iterator[tuple[int, Located]]:
        while (piece := self._queue.get()) is not None:
            first, packed = piece
            for at, located in pickle.loads(packed):
                yield first + at, located


class _Remote:
    """A writer somewhere on the cluster; once it is lost, what comes for it is passed over."""

    def __init__(self, shard: int, write: Write) -> None:
        self._ray = load_ray()
        made = self._ray.remote(_Writer).options(
            num_cpus=0, max_concurrency=2, max_restarts=0, scheduling_strategy="SPREAD"
        )
        self._actor = made.remote(shard, write)
        self._said = self._actor.run.remote()
        self._fed: Any = None
        self._is_lost = False

    def feed(self, piece: _Piece | None) -> None:
        """Bring a piece once the one before has been taken, so that their order holds."""
        with self._noting_loss():
            if self._fed is not None and not self._ray.get(self._fed):
                unwrap(self._ray.get(self._said))  # it stopped early: an error, which is raised
            if not self._is_lost:
                self._fed = self._actor.feed.remote(piece)

    def end(self) -> None:
        """Say that nothing more comes."""
        with contextlib.suppress(QuothError):  # told by `said`
            self.feed(None)

    def said(self) -> bytes | None:
        """Wait until all is written; None where the writer was lost."""
        packed: bytes | None = None
        with self._noting_loss():
            packed = self._ray.get(self._said)
            self._ray.kill(self._actor)
        return packed

    @contextlib.contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError):
            self._is_lost = True
