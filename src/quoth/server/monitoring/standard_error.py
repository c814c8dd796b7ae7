"""What is written to descriptor 2 by other than Python code, as records of the log.

Libraries in Rust and C write panics and warnings straight to descriptor 2. While a server runs,
that leads into a pipe, and a thread logs what comes out of it; the log itself goes to a copy of
what descriptor 2 was before.

A writer waits while the pipe is full, and the thread needs Python's interpreter lock to empty it.
Code that holds this lock and writes more than the pipe takes (a megabyte on Linux) without ever
releasing it would wait for ever. What is in the pipe when the process is killed or aborts is lost;
only Python's own report of a fatal signal goes straight to the copy.
"""

from __future__ import annotations

import errno
import faulthandler
import fcntl
import logging
import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

FOREIGN_LOG = "stderr"
"""The logger of what other than Python code says."""

LINES = "quoth_lines"
"""The attribute of a record that holds the lines below its message."""

_STANDARD_ERROR = 2
_PIPE_BYTES = 1_048_576
_READ_BYTES = 65_536
_QUIET_SECONDS = 0.1  # what comes within it belongs together
_PATIENCE_SECONDS = 1.0  # the longest that something is kept back
_DRAIN_SECONDS = 10.0
_MAX_GROUP = 1_000
_PANIC = re.compile(r"thread .* panicked at ")
_PANIC_END = re.compile(r"note: .*(?:RUST_BACKTRACE|backtrace)")
_TRACEBACK = "Traceback (most recent call last):"
_SERIOUS = re.compile(r"panick|\bfatal\b|\berror\b|\babort|terminate called", re.IGNORECASE)
_log = logging.getLogger(FOREIGN_LOG)


@dataclass(frozen=True, slots=True)
class ForeignText:
    """One thing that was said: a line, or all lines of a panic or a traceback."""

    level: int
    lines: tuple[str, ...]


@contextmanager
def copied(stream: TextIO) -> Iterator[TextIO]:
    """Yield another stream to the same file, which stays when the first one's leads elsewhere."""
    stream.flush()
    copy = os.dup(stream.fileno())
    with os.fdopen(copy, "w", encoding="utf-8", errors="backslashreplace") as opened:
        yield opened


@contextmanager
def captured_descriptor(original: TextIO) -> Iterator[None]:
    """Log what comes to descriptor 2 while the block runs; fatal signals are told to `original`.

    What this process wrote before the block ends is logged before this returns.
    """
    was_enabled = faulthandler.is_enabled()
    faulthandler.enable(file=original)
    capture = _Capture()
    try:
        yield
    finally:
        capture.stop()
        if was_enabled:
            faulthandler.enable()
        else:
            faulthandler.disable()


class _Capture:
    """The pipe behind descriptor 2, and the thread that empties it."""

    def __init__(self) -> None:
        self._original = os.dup(_STANDARD_ERROR)
        self._reading, self._writing = os.pipe()
        _enlarge(self._writing)
        self._is_stopping = False
        self._thread = threading.Thread(target=self._log_all, name="quoth-stderr", daemon=True)
        self._thread.start()
        os.dup2(self._writing, _STANDARD_ERROR)

    def stop(self) -> None:
        """Give descriptor 2 back; wait until what this process wrote is logged."""
        if sys.stderr is not None:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
        os.dup2(self._original, _STANDARD_ERROR)
        self._is_stopping = True
        with suppress(BrokenPipeError):
            os.write(self._writing, b"\n")  # wakes the thread; children may keep the pipe open
        os.close(self._writing)
        self._thread.join(_DRAIN_SECONDS)
        if not self._thread.is_alive():
            os.close(self._original)

    def _log_all(self) -> None:
        try:
            for batch in _batches(self._chunks()):
                log_foreign(batch)
        finally:
            # Without a reader every writer would wait for ever.
            os.dup2(self._original, _STANDARD_ERROR)
            os.close(self._reading)

    def _chunks(self) -> Iterator[bytes]:
        """Yield what comes, and nothing where it is quiet, until the end."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while not self._is_stopping:
            if not poll.poll(_QUIET_SECONDS * 1_000):
                yield b""
                poll.poll()  # until there is more
            chunk = os.read(self._reading, _READ_BYTES)
            if not chunk:
                return
            yield chunk
        yield from _remainder(self._reading)


def log_foreign(batch: bytes) -> None:
    """Log what came together."""
    for text in group_lines(batch.decode("utf-8", "backslashreplace").split("\n")):
        _log.log(text.level, "%s", text.lines[0], extra={LINES: text.lines[1:]})


def group_lines(lines: Iterable[str]) -> list[ForeignText]:
    """Put the lines of a panic or of a traceback together; every other line stands alone.

    >>> panic = ["thread 'main' panicked at a.rs:1:2:", "index out of bounds", "note: a backtrace"]
    >>> [len(each.lines) for each in group_lines(["careful", "", *panic, "more"])]
    [1, 3, 1]
    """
    groups: list[list[str]] = []
    is_open = False
    for line in lines:
        begins = _PANIC.match(line) is not None or line == _TRACEBACK
        if is_open and not begins and len(groups[-1]) < _MAX_GROUP:
            groups[-1].append(line.rstrip("\r"))
            is_open = not _ends(groups[-1])
        elif line.strip():
            groups.append([line.rstrip("\r")])
            is_open = begins
    return [ForeignText(_level(each), tuple(_without_blank_end(each))) for each in groups]


def _ends(group: list[str]) -> bool:
    """Say whether the last line of a group ends it; else it ends where it becomes quiet."""
    if group[0] == _TRACEBACK:
        return bool(group[-1]) and not group[-1].startswith((" ", "\t"))
    return _PANIC_END.match(group[-1]) is not None


def _without_blank_end(group: list[str]) -> list[str]:
    last = max(number for number, line in enumerate(group) if line.strip())
    return group[: last + 1]


def _level(group: list[str]) -> int:
    is_serious = group[0] == _TRACEBACK or _SERIOUS.search(group[0]) is not None
    return logging.ERROR if is_serious else logging.WARNING


def _batches(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Join what comes without a pause, but not more than a read's worth nor for long."""
    pending, since = b"", 0.0
    for chunk in chunks:
        now = time.monotonic()
        since = since if pending else now
        pending += chunk
        if not chunk:
            whole, pending = pending, b""
        elif len(pending) >= _READ_BYTES or now - since >= _PATIENCE_SECONDS:
            whole, pending = _whole_lines(pending)
        else:
            continue
        yield whole
    yield pending


def _whole_lines(pending: bytes) -> tuple[bytes, bytes]:
    r"""Split before the last, unfinished line; one that is too long is cut.

    >>> _whole_lines(b"a\nb\nc")
    (b'a\nb\n', b'c')
    """
    if len(pending) >= _READ_BYTES and b"\n" not in pending:
        return pending, b""
    end = pending.rfind(b"\n") + 1
    return pending[:end], pending[end:]


def _remainder(descriptor: int) -> Iterator[bytes]:
    """Yield what is in the pipe now: no more than it takes, as children may go on writing."""
    os.set_blocking(descriptor, False)
    left = _PIPE_BYTES + 1
    while left > 0:
        try:
            chunk = os.read(descriptor, min(left, _READ_BYTES))
        except BlockingIOError:
            return
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


def _enlarge(descriptor: int) -> None:
    """Let the pipe take as much as the system allows, so that writers seldom wait."""
    if sys.platform != "linux":
        return
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EBUSY, errno.EINVAL):
            raise
