"""Searches in processes of their own, so that they use as many cores as there are.

Python lets one thread of a process work at a time. Each process here opens the same collection,
whose files are mapped and so shared, and is asked through a socket: a request goes there, the JSON
of its hits comes back. One that dies takes its one search with it; the next gets a new one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from quoth.errors import QuothError
from quoth.interruption import Interruption, check_interruption, interruptible
from quoth.records import SearchRequest
from quoth.server.errors import Crashed
from quoth.server.monitoring.timings import StageTimes
from quoth.server.workers.models import share_engine
from quoth.settings.config import Values
from quoth.shards.opening import OpenedEngine, open_engine
from quoth.wire.writing import search_json

_MAIN = f"from {__name__} import main; main()"
_PRIORITIES = {False: 4, True: 14}  # as the command nice has it: the server itself goes first
_POLL_MILLISECONDS = 50
_STOP_SECONDS = 2.0
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The JSON of a search's hits, and how long each stage took."""

    body: bytes
    seconds: dict[str, float]


class SearchProcesses:
    """Processes that search one collection; each is started when it is needed.

    `concurrent` is how many searches run at once; the cores are shared out among so many.
    """

    def __init__(self, folder: Path, settings: Sequence[Values], *, concurrent: int) -> None:
        self._folder = folder
        self._settings = tuple(settings)
        self._threads = max(1, (os.cpu_count() or 1) // concurrent)
        self._lock = threading.Lock()
        self._idle: dict[bool, list[_SearchProcess]] = {False: [], True: []}
        self._all: set[_SearchProcess] = set()

    def find(self, request: SearchRequest, *, gives_way: bool = False) -> SearchOutcome:
        """Search in a process that is idle, or in a new one; one that gives way has less priority.

        So a search that takes long does not slow down the others.
        """
        process = self._take(gives_way)
        try:
            outcome = process.find(request)
        except (EOFError, OSError) as error:
            self._drop(process)
            raise Crashed("the process that searched has died; send the request again") from error
        except BaseException:
            self._put_back(process)
            raise
        self._put_back(process)
        return outcome

    def warm_up(self, request: SearchRequest, *, number: int) -> None:
        """Start so many processes and let each search once."""
        started = [self._start(gives_way=False) for _each in range(number)]
        for process in started:
            with contextlib.suppress(QuothError, EOFError, OSError):  # whoever searches hears of it
                process.find(request)
            self._put_back(process)

    def close(self) -> None:
        """End all processes."""
        for process in tuple(self._all):
            self._drop(process)

    def _take(self, gives_way: bool) -> _SearchProcess:
        with self._lock:
            if self._idle[gives_way]:
                return self._idle[gives_way].pop()
        return self._start(gives_way=gives_way)

    def _start(self, *, gives_way: bool) -> _SearchProcess:
        process = _SearchProcess(
            self._folder, self._settings, threads=self._threads, gives_way=gives_way
        )
        with self._lock:
            self._all.add(process)
        return process

    def _put_back(self, process: _SearchProcess) -> None:
        if process.is_usable:
            with self._lock:
                self._idle[process.gives_way].append(process)
        else:
            self._drop(process)

    def _drop(self, process: _SearchProcess) -> None:
        with self._lock:
            self._all.discard(process)
            if process in self._idle[process.gives_way]:
                self._idle[process.gives_way].remove(process)
        process.close()


class _SearchProcess:
    """One process, as the thread that asks it sees it."""

    def __init__(
        self, folder: Path, settings: Sequence[Values], *, threads: int, gives_way: bool
    ) -> None:
        self.gives_way = gives_way
        priority = str(_PRIORITIES[gives_way])
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(theirs.fileno()), priority],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            )
        self._connection = Connection(ours.detach())
        self._answers = _poller(self._connection)
        self._connection.send((folder, settings))
        self.is_usable = True

    def find(self, request: SearchRequest) -> SearchOutcome:
        """Search; where this thread's work is to stop, that of the process stops, too."""
        self._connection.send(request)
        try:
            while not self._answers.poll(_POLL_MILLISECONDS):
                check_interruption()
        except BaseException:
            self._stop()
            raise
        outcome: SearchOutcome | Exception = self._connection.recv()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the process: it does when nobody is left to ask it."""
        self.is_usable = False
        self._connection.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _stop(self) -> None:
        """Have the present search given up; a process that does not is not used again."""
        self.is_usable = False
        with contextlib.suppress(OSError, EOFError):
            self._connection.send(None)
            if self._connection.poll(_STOP_SECONDS):
                self._connection.recv()
                self.is_usable = True


def _poller(connection: Connection) -> select.poll:
    """Return what waits for a connection; `Connection.poll` sets up everything anew each time."""
    made = select.poll()
    made.register(connection.fileno(), select.POLLIN)
    return made


# In the process ----------------------------------------------------------------------------------


def main() -> None:
    """Search for whoever holds the other end of a socket, until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server ends, and then this does
    os.nice(int(sys.argv[2]))
    connection = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, OSError):
        folder, settings = connection.recv()
        _Searching(connection, folder, settings).run()


class _Unwanted(Interruption):
    """Is due once the other end of a connection says so, or is gone; it looks now and then."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._words = _poller(connection)
        self._next_look = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the search should stop."""
        now = time.monotonic()
        if now >= self._next_look and not self._is_stopped:
            self._next_look = now + _POLL_MILLISECONDS / 1e3
            if self._words.poll(0):
                self.stop()
                with contextlib.suppress(EOFError, OSError):  # then no more will be asked
                    self._connection.recv()
        return super().is_due


class _Searching:
    """Searches one after another, and hears meanwhile that one is not wanted any more."""

    def __init__(self, connection: Connection, folder: Path, settings: Sequence[Values]) -> None:
        self._connection = connection
        self._stages = StageTimes()
        self._open = share_engine(open_engine(folder, settings=settings), self._stages)
        self._engine: OpenedEngine | None = None

    def run(self) -> None:
        """Search until nobody asks any more."""
        while True:
            request = self._connection.recv()
            if request is not None:  # or else told to stop what is done already
                with interruptible(_Unwanted(self._connection)):
                    self._connection.send(self._find(request))

    def _find(self, request: SearchRequest) -> SearchOutcome | Exception:
        try:
            if self._engine is None:
                self._engine = self._open()
                gc.freeze()  # what was loaded is here to stay: nobody need look at it as garbage
            with self._stages.of_one_request() as seconds:
                found = self._engine.find(request)
                body = search_json(request, found, seconds)
                return SearchOutcome(body, dict(seconds))
        except QuothError as error:
            return error
        except Exception as error:
            traceback.print_exc()
            return RuntimeError(f"{type(error).__name__}: {error}")
