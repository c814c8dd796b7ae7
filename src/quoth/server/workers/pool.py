"""Threads that do the work of requests: as many as set, with a bounded queue before them.

An engine is not made for several threads at a time: its connection to SQLite holds one snapshot,
and its searchers keep what they were asked last. So each thread has an engine of its own; models
are shared.

What cannot be begun in time is refused, at once where that is foreseen and else when the time is
over; what takes too long, or is done for a client that left, is stopped (see `interruption`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import TypeVar

from quoth.errors import Damaged, OutOfFiles, QuothError, StorageFailed
from quoth.interruption import Interruption, current_interruption, interruptible
from quoth.server.errors import Overloaded, TookTooLong
from quoth.server.monitoring.metrics import PoolState
from quoth.shards.opening import OpenedEngine

_NEWEST = 0.1  # share of the last job in what is usual
_BUSY = "too many requests are waiting; try again in a moment"
_T = TypeVar("_T")


class Job(Future[_T]):
    """Some work that was taken on; `is_refused` once its turn did not come in time."""

    is_refused = False


def stopping(
    work: Callable[[OpenedEngine], _T], interruption: Interruption
) -> Callable[[OpenedEngine], _T]:
    """Let some work be stopped, also before it begins."""

    def stoppable(engine: OpenedEngine) -> _T:
        with interruptible(interruption):
            interruption.check()
            return work(engine)

    return stoppable


class WorkerPool:
    """Some threads with an engine each; `capacity` jobs may wait for them.

    Fewer may where the last of them would wait longer than `patience` seconds, by how long jobs
    took of late: what cannot be begun soon is better refused at once, and a crowd is forgotten as
    soon as it has gone.
    """

    def __init__(
        self,
        name: str,
        make_engine: Callable[[], OpenedEngine],
        *,
        workers: int,
        capacity: int,
        patience: float = math.inf,
    ) -> None:
        self.capacity = capacity
        self._name = name
        self._patience = patience
        self._usual_seconds = 0.0
        self._make_engine = make_engine
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix=f"quoth-{name}")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._workers = workers
        self._unfinished = 0
        self._refused = 0
        self._engines: list[OpenedEngine] = []
        self._interruptions: set[Interruption] = set()
        self._begun: dict[int, float] = {}  # of jobs that are being done, by their identity

    @property
    def length(self) -> int:
        """Jobs that wait for a thread."""
        return max(0, self._unfinished - self._workers)

    @property
    def state(self) -> PoolState:
        """How busy the pool is now."""
        busy = len(self._begun)
        return PoolState(self._name, self.length, self.capacity, self._workers, busy, self._refused)

    @property
    def is_busy(self) -> bool:
        """Whether one more job would have to wait."""
        return self._unfinished >= self._workers

    @property
    def would_refuse(self) -> bool:
        """Whether one more job would be refused now."""
        with self._lock:
            return self._is_full(self._expected_seconds())

    def admit(self, ahead: int = 0) -> None:
        """Complain where one more job would be refused now, with so many about to come first."""
        with self._lock:
            self._require_room(ahead)

    def submit(self, work: Callable[[OpenedEngine], _T]) -> Job[_T]:
        """Have some work done when its turn comes; refused where too much waits already."""
        with self._lock:
            self._require_room()
            self._unfinished += 1
        job: Job[_T] = Job()
        job.add_done_callback(self._note_end)
        try:
            self._executor.submit(self._do, job, work)
        except BaseException:
            job.cancel()
            raise
        return job

    async def run(
        self, work: Callable[[OpenedEngine], _T], *, seconds: float, may_stop: bool = True
    ) -> _T:
        """Have some work done and wait for it, but no longer than this.

        It stops where it takes longer or its client has left; where it must not (`may_stop`), only
        the waiting ends. What has not begun by then never does.
        """
        async with self.waiting(seconds) as interruption:
            job = self.submit(stopping(work, interruption) if may_stop else work)
            with self.refusing_late(job):
                return await asyncio.wrap_future(job)

    @asynccontextmanager
    async def waiting(self, seconds: float) -> AsyncIterator[Interruption]:
        """Wait for some work in the block, but no longer than this; then the work is to stop."""
        interruption = Interruption(seconds=seconds, within=current_interruption())
        self._interruptions.add(interruption)
        try:
            async with asyncio.timeout(seconds):
                yield interruption
        except TimeoutError as error:
            raise TookTooLong(
                f"the server did not get this done within {seconds:g} seconds; try again later"
            ) from error
        finally:
            interruption.stop()
            self._interruptions.discard(interruption)

    @contextmanager
    def refusing_late(self, job: Job[_T]) -> Iterator[None]:
        """Refuse the job that the block waits for where it does not begin within the patience."""
        timer = None
        if not math.isinf(self._patience):
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._patience, self._refuse_unbegun, job)
        try:
            yield
        except (asyncio.CancelledError, CancelledError):
            if not job.is_refused:
                raise
            raise Overloaded(_BUSY, retry_seconds=self._expected_seconds()) from None
        finally:
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """Stop what may be stopped, finish the rest, then release all files."""
        for interruption in tuple(self._interruptions):
            interruption.stop()
        self._executor.shutdown(wait=True)
        for engine in self._engines:
            engine.close()
        self._engines = []

    # Inner workings --------------------------------------------------------------------------

    def _require_room(self, ahead: int = 0) -> None:
        expected = self._expected_seconds()
        if self._is_full(expected, ahead):
            self._refused += 1
            raise Overloaded(_BUSY, retry_seconds=expected)

    def _is_full(self, expected_seconds: float, ahead: int = 0) -> bool:
        waiting = self._unfinished + ahead - self._workers + 1  # with one more
        wait = expected_seconds * waiting / self._workers
        return waiting > self.capacity or (waiting > 0 and wait > self._patience)

    def _expected_seconds(self) -> float:
        """How long a job takes: as of late, and no less than all that are being done took so far.

        >>> pool = WorkerPool("doctest", lambda: None, workers=1, capacity=1)
        >>> pool._expected_seconds()
        0.0
        """
        begun = list(self._begun.values())
        is_busy = len(begun) == self._workers
        return max(self._usual_seconds, monotonic() - max(begun) if is_busy else 0.0)

    def _refuse_unbegun(self, job: Job[_T]) -> None:
        if not job.done() and job.cancel():
            job.is_refused = True
            with self._lock:
                self._refused += 1

    def _do(self, job: Job[_T], work: Callable[[OpenedEngine], _T]) -> None:
        if not job.set_running_or_notify_cancel():
            return
        with self._lock:
            self._begun[id(job)] = monotonic()
        try:
            outcome = work(self._engine())
        except BaseException as error:
            self._note_done(job)
            job.set_exception(self._mend(error))
        else:
            self._note_done(job)
            job.set_result(outcome)

    def _mend(self, error: BaseException) -> BaseException:
        """Open files anew after damage, which somebody may repair; a panic is an error as any."""
        if isinstance(error, Damaged | OutOfFiles | StorageFailed):
            engine = self._own.__dict__.pop("engine", None)
            if engine is not None:
                self._engines.remove(engine)
                with contextlib.suppress(QuothError):
                    engine.close()
        if isinstance(error, Exception):
            return error
        failure = RuntimeError(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
        return failure

    def _engine(self) -> OpenedEngine:
        engine: OpenedEngine | None = getattr(self._own, "engine", None)
        if engine is None:
            engine = self._own.engine = self._make_engine()
            self._engines.append(engine)
        return engine

    def _note_done(self, job: Job[_T]) -> None:
        with self._lock:
            taken = monotonic() - self._begun.pop(id(job))
            self._usual_seconds += _NEWEST * (taken - self._usual_seconds)

    def _note_end(self, _job: object) -> None:
        with self._lock:
            self._unfinished -= 1
