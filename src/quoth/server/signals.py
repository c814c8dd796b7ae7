"""What a server's process does when it is told to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def termination_unwinds() -> Iterator[None]:
    """Let SIGTERM end the block as an exit does, so that what is open gets closed.

    The web server finishes what it began and then raises the signal again; unless someone takes it,
    the process ends on the spot, with the last lines of the log unwritten. Other threads than the
    main one cannot take signals, so nothing changes there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
