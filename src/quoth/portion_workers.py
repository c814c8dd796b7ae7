"""Processes that work on portions, and the thread that shares the work with them.

Portions and results are pickled, between processes of one program, and go through sockets: a whole
message in one call, since whoever waits for Python's lock in between would wait once per buffer.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

AHEAD = 3
"""Portions at hand for each process, the caller included; they bound what is held in memory."""

_IN_HAND = 2
"""Portions that a process has at a time: one to work on, and the next."""

_START = """
import sys
sys.path[:] = {path!r}
from quoth.portion_workers import serve
serve()
"""
_HEAD_BYTES = 8
_FAILED = b""

P = TypeVar("P")
R = TypeVar("R")


class _Slot(Generic[P, R]):
    """A portion and what became of it."""

    def __init__(self, work: Callable[[P], R], portion: P) -> None:
        self.work = work
        self.portion = portion
        self.is_done = threading.Event()
        self._results: list[R] = []

    def put(self, result: R) -> None:
        """Keep the result."""
        self._results.append(result)

    def give(self) -> R:
        """Return the result; where there is none, it is worked out here, with all its errors."""
        return self._results.pop() if self._results else self.work(self.portion)


class _Source(Generic[P, R]):
    """Portions that are drawn one by one; an error comes after what was drawn before it."""

    def __init__(self, work: Callable[[P], R], portions: Iterator[P]) -> None:
        self._work = work
        self._portions = portions
        self._failure: Exception | None = None

    def draw(self) -> list[_Slot[P, R]]:
        """Draw the next portion; none at the end."""
        if self._failure is not None:
            return []
        try:
            return [_Slot(self._work, portion) for portion in islice(self._portions, 1)]
        except Exception as error:
            self._failure = error
            return []

    def raise_failure(self) -> None:
        """Raise what ended the drawing, if anything did."""
        if self._failure is not None:
            raise self._failure


class Crew:
    """Processes that share the work with the thread that asks for it."""

    def __init__(self, workers: int) -> None:
        self._waiting: queue.SimpleQueue[_Slot[Any, Any] | None] = queue.SimpleQueue()
        self._processes: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
        self._threads: list[threading.Thread] = []
        path = [each for each in sys.path if each] or [os.getcwd()]
        command = [sys.executable, "-c", _START.format(path=path)]
        for _worker in range(workers):
            with contextlib.suppress(OSError):  # where none can be started, the caller does it all
                self._start(command)

    def _start(self, command: list[str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as unless_started:
            unless_started.callback(ours.close)
            process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            unless_started.pop_all()
        self._processes.append((process, ours))
        thread = threading.Thread(target=self._hand_over, args=(ours,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def run(self, work: Callable[[P], R], portions: Iterator[P]) -> Generator[R, None, None]:
        """Yield results in order, and work on portions while the next result is not there."""
        slots: deque[_Slot[P, R]] = deque()
        most, source = AHEAD * (1 + len(self._processes)), _Source(work, portions)
        try:
            while True:
                if slots and slots[0].is_done.is_set():
                    yield slots.popleft().give()
                elif len(slots) < most and (drawn := source.draw()):
                    slots.extend(drawn)
                    self._waiting.put(drawn[0])
                elif slots:
                    self._take_part(slots[0])
                else:
                    source.raise_failure()
                    return
        finally:
            self._forget_waiting()

    def _forget_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()

    def _take_part(self, awaited: _Slot[P, R]) -> None:
        """Work on the next portion that nobody has taken; where there is none, wait."""
        try:
            slot = self._waiting.get_nowait()
        except queue.Empty:
            awaited.is_done.wait()
            return
        if slot is not None:
            with contextlib.suppress(Exception):  # it is met again when its turn comes
                slot.put(slot.work(slot.portion))
            slot.is_done.set()

    def _hand_over(self, worker: socket.socket) -> None:
        """Let a process work on one portion after another, until it or the work ends.

        It gets the next one before it has answered the last, so that it need not wait.
        """
        sent: deque[_Slot[Any, Any]] = deque()
        try:
            while True:
                slot = self._take(wait=not sent) if len(sent) < _IN_HAND else None
                if slot is not None:
                    sent.append(slot)
                    _send(worker, _write((slot.work, slot.portion)))
                elif not sent or (answer := _receive(worker)) is None:
                    return
                else:
                    if answer:
                        sent[0].put(pickle.loads(answer))
                    sent.popleft().is_done.set()
        except OSError:
            return  # the process is gone; the caller does what it had
        finally:
            for slot in sent:
                slot.is_done.set()

    def _take(self, *, wait: bool) -> _Slot[Any, Any] | None:
        """Take the next portion; None where there is none, or will be none."""
        try:
            return self._waiting.get(block=wait)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the processes."""
        self._forget_waiting()
        for process, _connection in self._processes:
            self._waiting.put(None)
            process.kill()
        for thread in self._threads:
            thread.join()
        for process, connection in self._processes:
            connection.close()
            process.wait()


def _write(message: object) -> bytes:
    """Write a message down; nothing where it cannot be, and nothing comes of that."""
    try:
        return pickle.dumps(message, protocol=5)
    except Exception:  # whatever those who made its parts thought of
        return _FAILED


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(_HEAD_BYTES, "big") + message)


def _receive(connection: socket.socket) -> bytes | None:
    """Read a message; None where the other side ended."""
    head = _receive_all(connection, _HEAD_BYTES)
    return None if head is None else _receive_all(connection, int.from_bytes(head, "big"))


def _receive_all(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts), socket.MSG_WAITALL)
        if not part:
            return None
        parts += part
    return bytes(parts)


# In the other process ---------------------------------------------------------------------------


def serve() -> None:
    """Work on portions that come through standard input, a socket, until there are none."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever handed over decides
    portions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with socket.socket(fileno=os.dup(0)) as caller:
        threading.Thread(target=_listen, args=(caller, portions), daemon=True).start()
        while True:
            _send(caller, _answer(portions.get()))


def _listen(caller: socket.socket, portions: queue.SimpleQueue[bytes]) -> None:
    """Take portions, so that the caller never waits to send one; end where the caller has."""
    try:
        while (written := _receive(caller)) is not None:
            portions.put(written)
    finally:
        os._exit(0)


def _answer(written: bytes) -> bytes:
    """Work on a portion; nothing comes of one that could not even be written down."""
    try:
        work, portion = pickle.loads(written)
        return pickle.dumps(work(portion), protocol=5)
    except Exception:  # whatever it is, the caller meets it, too
        return _FAILED
