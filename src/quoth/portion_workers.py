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
from typing import Any

from quoth.portion_threads import Crew, Slot

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


class ProcessCrew(Crew):
    """Processes that do, each with a thread here that hands over to it."""

    def __init__(self, workers: int) -> None:
        self._processes: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
        path = [each for each in sys.path if each] or [os.getcwd()]
        self._command = [sys.executable, "-c", _START.format(path=path)]
        super().__init__(workers)

    def _hire(self) -> None:
        with contextlib.suppress(OSError):  # where none can be started, the caller does it all
            self._start_process()

    def _start_process(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as unless_started:
            unless_started.callback(ours.close)
            process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            unless_started.pop_all()
        self._processes.append((process, ours))
        self._start_thread(self._hand_over, ours)

    def _hand_over(self, worker: socket.socket) -> None:
        """Let a process work on one portion after another, until it or the work ends.

        It gets the next one before it has answered the last, so that it need not wait.
        """
        sent: deque[Slot[Any, Any]] = deque()
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

    def _take(self, *, wait: bool) -> Slot[Any, Any] | None:
        """Take the next portion; None where there is none, or will be none."""
        try:
            return self._waiting.get(block=wait)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the processes."""
        for process, _connection in self._processes:
            process.kill()
        super().close()
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
