"""Add documents batch by batch under a limit on file sizes, saying what is acknowledged.

Ends with the name of the error that stopped it; any error that is not ours is a crash.
"""

from __future__ import annotations

import resource
import signal
import sys

from damaging import SETTINGS, make_document

from quoth.engine.engine import Engine
from quoth.errors import CollectionError

BATCH, MOST = 20, 600


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(folder: str, max_bytes: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing too much is an error
    if int(max_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(max_bytes), int(max_bytes)))
    try:
        with Engine.open(folder, settings=SETTINGS) as engine:
            engine.add_documents([])
            for start in range(0, MOST, BATCH):
                engine.add_documents(
                    make_document(number, seed=1) for number in range(start, start + BATCH)
                )
                _say(f"added {start}")
    except CollectionError as error:
        _say(type(error).__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
