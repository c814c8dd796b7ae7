"""Read a file in a process apart, which is stopped where it takes too long or too much memory.

Parsers of other people's formats meet files that make them hang, swell or crash. One process reads
file after file (`serve`), so that starting it costs once; a file that stops it is reported, and
the next file gets another one. What comes back is JSON: the worker is not trusted.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from quoth.records import Document, Located, Place, Problem
from quoth.text.readers.outcomes import PARSER_FAILURES, Outcome, Whole, describe

_READY = b"ready\n"
_START = """
import sys
sys.path[:] = {path!r}
from quoth.text.readers.apart import serve
from quoth.text.readers.reading import WHOLE_READERS
serve(WHOLE_READERS, {most})
"""
_HEAD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may take."""

    seconds: float
    memory_bytes: int


class WorkerLost(Exception):
    """The process ended before it answered."""


Readers = Mapping[str, Callable[[Whole], Iterator[Outcome]]]
"""What reads a whole file, by format."""


class Worker:
    """A process that reads files, one at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        if self._out.readline() != _READY:
            self.close()
            raise WorkerLost("it did not start")

    def ask(self, request: dict[str, Any], data: bytes, *, seconds: float) -> Any:
        """Send a request and wait for its answer, so many seconds at most."""
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        try:
            for part in (json.dumps(request).encode(), data):
                self._in.write(len(part).to_bytes(_HEAD_BYTES, "big") + part)
            self._in.flush()
            size = self._out.read(_HEAD_BYTES)
            answer = self._out.read(int.from_bytes(size, "big")) if size else b""
        except OSError as error:
            raise WorkerLost(str(error)) from error
        finally:
            late.cancel()
        if not answer:
            raise WorkerLost("it ended without an answer")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        for stream in (self._in, self._out):
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()


class _Reused:
    """The worker of this process, started when first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._worker: Worker | None = None
        self._limits: Limits | None = None
        self._cannot_start = False

    def get(self, limits: Limits) -> Worker | None:
        """Return the worker; None where none can be started here."""
        worker = self._worker
        if worker is not None and (worker.owner != os.getpid() or self._limits != limits):
            self.end()
        if self._worker is None and not self._cannot_start:
            self._start(limits)
        return self._worker

    def _start(self, limits: Limits) -> None:
        path = [each for each in sys.path if each] or [os.getcwd()]
        code = _START.format(path=path, most=limits.memory_bytes)
        try:
            self._worker, self._limits = Worker([sys.executable, "-c", code]), limits
        except (OSError, WorkerLost):
            self._cannot_start = True

    def end(self) -> None:
        """Let go of the worker; that of a parent process stays."""
        worker, self._worker = self._worker, None
        if worker is not None and worker.owner == os.getpid():
            worker.close()


_reused = _Reused()
atexit.register(_reused.end)


def read_apart(format: str, whole: Whole, limits: Limits) -> list[Outcome] | None:
    """Read a file elsewhere; None where no process can be started to do it."""
    request = {
        "format": format,
        "path": whole.path,
        "encoding": whole.encoding,
        "max_bytes": whole.max_bytes,
    }
    with _reused.lock:
        worker = _reused.get(limits)
        if worker is None:
            return None
        try:
            answer = worker.ask(request, whole.data, seconds=limits.seconds)
            return [_read_outcome(each) for each in answer]
        except (WorkerLost, ValueError, TypeError, LookupError):
            _reused.end()
    message = (
        "cannot be read: the parser crashed, or exceeded readers.max_seconds"
        f" ({limits.seconds:g} s) or readers.max_memory_bytes ({limits.memory_bytes:,} bytes);"
        " raise the limit, or leave this file out"
    )
    return [Problem(Place(whole.path), message)]


def _write_outcome(outcome: Outcome) -> list[Any]:
    """Write an outcome as JSON can hold it."""
    place = [outcome.place.path, outcome.place.line]
    if isinstance(outcome, Problem):
        return [*place, outcome.message]
    document = outcome.document
    return [*place, document.docid, dict(document.fields), dict(document.metadata)]


def _read_outcome(written: Sequence[Any]) -> Outcome:
    """Read an outcome.

    >>> located = Located(Document("d", {"text": ("a", "b")}, {"pages": 2}), Place("x.pdf"))
    >>> _read_outcome(json.loads(json.dumps(_write_outcome(located)))) == located
    True
    """
    place = Place(str(written[0]), None if written[1] is None else int(written[1]))
    if len(written) == 3:
        return Problem(place, str(written[2]))
    _path, _line, docid, fields, metadata = written
    texts = {str(name): tuple(map(str, values)) for name, values in fields.items()}
    about = {
        str(name): tuple(value) if isinstance(value, list) else value
        for name, value in metadata.items()
    }
    return Located(Document(str(docid), texts, about), place)


# In the process apart ---------------------------------------------------------------------------


def serve(readers: Readers, most_memory: int) -> None:
    """Read files that are sent to standard input, until nobody sends any more.

    Requests and answers are JSON behind their length; whatever else writes to standard output goes
    nowhere.
    """
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks decides what becomes of it
    _limit_memory(most_memory)
    given, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    answers.write(_READY)
    answers.flush()
    while (head := _receive(given)) is not None:
        written = _answer(readers, json.loads(head), _receive(given) or b"")
        answers.write(len(written).to_bytes(_HEAD_BYTES, "big") + written)
        answers.flush()


def _receive(stream: BinaryIO) -> bytes | None:
    size = stream.read(_HEAD_BYTES)
    return stream.read(int.from_bytes(size, "big")) if size else None


def _answer(readers: Readers, request: Mapping[str, Any], data: bytes) -> bytes:
    whole = Whole(request["path"], data, request["encoding"], request["max_bytes"])
    try:
        outcomes = [_write_outcome(each) for each in readers[request["format"]](whole)]
        return json.dumps(outcomes).encode()
    except PARSER_FAILURES as error:
        failed = Problem(Place(whole.path), f"cannot be read: {describe(error)}")
        return json.dumps([_write_outcome(failed)]).encode()


def _limit_memory(most: int) -> None:
    """Let this process have so much more memory than it has now, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = most + pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
