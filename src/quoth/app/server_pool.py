"""Threads that do the work of requests: as many as set, with a bounded queue before them.

An engine is not made for several threads at a time: its connection to SQLite holds one snapshot,
and its searchers keep what they were asked last. So each thread has an engine of its own; models
are shared.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from quoth.app.server_errors import Overloaded, TookTooLong
from quoth.app.server_worker import Worker

_NEWEST = 0.1  # share of the last job in what is usual
_T = TypeVar("_T")


class WorkerPool:
    """Some threads with an engine each; `capacity` jobs may wait for them.

    Fewer may where the last of them would wait longer than `patience` seconds, by how long jobs
    took of late: what cannot be done soon is better refused at once, and a crowd is forgotten as
    soon as it has gone.
    """

    def __init__(
        self,
        name: str,
        make_engine: Callable[[], Worker],
        *,
        workers: int,
        capacity: int,
        patience: float = math.inf,
    ) -> None:
        self.capacity = capacity
        self._patience = patience
        self._usual_seconds = 0.0
        self._make_engine = make_engine
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix=f"quoth-{name}")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._workers = workers
        self._unfinished = 0
        self._engines: list[Worker] = []

    @property
    def length(self) -> int:
        """Jobs that wait for a thread."""
        return max(0, self._unfinished - self._workers)

    def submit(self, work: Callable[[Worker], _T]) -> Future[_T]:
        """Have some work done when its turn comes; refused where too much waits already."""
        with self._lock:
            waiting = self._unfinished - self._workers + 1  # with this one
            wait = self._usual_seconds * waiting / self._workers
            if waiting > self.capacity or (waiting > 0 and wait > self._patience):
                raise Overloaded("too many requests are waiting; try again in a moment")
            self._unfinished += 1
        try:
            future = self._executor.submit(self._do, work)
        except BaseException:
            self._note_end(None)
            raise
        future.add_done_callback(self._note_end)
        return future

    async def run(self, work: Callable[[Worker], _T], *, seconds: float) -> _T:
        """Have some work done and wait for it, but no longer than this.

        What has not begun by then never does; what has goes on to its end.
        """
        waited = asyncio.wrap_future(self.submit(work))
        try:
            return await asyncio.wait_for(waited, seconds)
        except TimeoutError as error:
            raise TookTooLong(
                f"the server did not get this done within {seconds:g} seconds; try again later"
            ) from error

    def close(self) -> None:
        """Finish what was begun and what waits, then release all files."""
        self._executor.shutdown(wait=True)
        for engine in self._engines:
            engine.close()
        self._engines = []

    def _do(self, work: Callable[[Worker], _T]) -> _T:
        engine: Worker | None = getattr(self._own, "engine", None)
        if engine is None:
            engine = self._own.engine = self._make_engine()
            self._engines.append(engine)
        began = monotonic()
        try:
            return work(engine)
        finally:
            with self._lock:
                self._usual_seconds += _NEWEST * (monotonic() - began - self._usual_seconds)

    def _note_end(self, _future: object) -> None:
        with self._lock:
            self._unfinished -= 1
