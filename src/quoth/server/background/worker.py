"""The process that encodes or learns for a server, and tells how far it is on standard output.

    python -m quoth.server.background.worker < request.json

It reads one JSON object (kind, folder, settings) and writes one per line: progress (what, done,
total), notes, and at the end what came of it. SIGINT or SIGTERM ends it; the next one resumes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, TextIO

from quoth.errors import QuothError
from quoth.shards.opening import open_engine

ENCODE, LEARN = KINDS = ("encode", "learn")
_EVERY_SECONDS = 0.2


class _Teller:
    """Writes records, and progress no more often than somebody looks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told = ("", 0.0)

    def record(self, **values: object) -> None:
        """Write one record."""
        self._stream.write(json.dumps(values) + "\n")
        self._stream.flush()

    def progress(self, what: str, done: int, total: int) -> None:
        """Say how far something has come."""
        before, moment = self._told
        if what == before and time.monotonic() - moment < _EVERY_SECONDS and done != total:
            return
        self._told = (what, time.monotonic())
        self.record(what=what, done=done, total=total)

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        self.record(note=text)


def main() -> None:
    """Do what standard input asks for."""
    request = json.load(sys.stdin)
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with what is told
    teller = _Teller(own)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        teller.record(finished=do(request, teller))
    except KeyboardInterrupt:
        teller.record(cancelled=True)
    except QuothError as error:
        teller.record(failed=str(error))
    except ImportError as error:
        teller.record(failed=f'this needs {error.name}; run pip install "quoth[neural]"')
    except Exception as error:
        teller.record(failed=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())


def do(request: Mapping[str, Any], teller: _Teller) -> str:
    """Encode or learn, and sum up in one sentence."""
    with open_engine(
        request["folder"], settings=request["settings"], progress=teller.progress
    ) as engine:
        if request["kind"] == ENCODE:
            calibration = engine.encode()
            vectors = engine.status()["indexes"]["dense"]["vectors"]
            return f"{vectors:,} vectors; {calibration.reason}"
        from quoth.jobs.learn.plan import LearnRequest
        from quoth.jobs.learn.sharded import learn_any

        outcome = learn_any(engine, LearnRequest(), note=teller.note)
        assert outcome.report is not None
        return "learned before with these settings" if outcome.is_old else "the report is ready"


if __name__ == "__main__":
    main()
