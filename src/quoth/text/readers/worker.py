"""The process that `apart.py` starts: it reads files that it is sent, until nobody sends any more.

Requests and answers are JSON behind their length, on standard input and output.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import BinaryIO

from quoth.records import Place, Problem
from quoth.text.readers.apart import READY, write_outcome
from quoth.text.readers.outcomes import PARSER_FAILURES, Whole, describe
from quoth.text.readers.reading import WHOLE_READERS

_HEAD_BYTES = 8


def main(most_memory: int) -> None:
    """Answer requests; whatever else writes to standard output goes nowhere."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks decides what becomes of it
    _limit_memory(most_memory)
    given, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    answers.write(READY)
    answers.flush()
    while (head := _receive(given)) is not None:
        written = _answer(json.loads(head), _receive(given) or b"")
        answers.write(len(written).to_bytes(_HEAD_BYTES, "big") + written)
        answers.flush()


def _receive(stream: BinaryIO) -> bytes | None:
    size = stream.read(_HEAD_BYTES)
    return stream.read(int.from_bytes(size, "big")) if size else None


def _answer(request: dict[str, object], data: bytes) -> bytes:
    path = str(request["path"])
    whole = Whole(path, data, str(request["encoding"]), int(str(request["max_bytes"])))
    try:
        outcomes = [write_outcome(each) for each in WHOLE_READERS[str(request["format"])](whole)]
        return json.dumps(outcomes).encode()
    except PARSER_FAILURES as error:
        failed = Problem(Place(path), f"reading it failed: {describe(error)}")
        return json.dumps([write_outcome(failed)]).encode()


def _limit_memory(most: int) -> None:
    """Let this process have so much more memory than it has now, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(open("/proc/self/statm").read().split()[0])
        limit = most + pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
