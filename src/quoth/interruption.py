"""Stopping work from outside: whoever asks can give up, and whoever works looks up now and then.

A thread cannot be stopped in Python; it has to stop itself. So a caller hands an `Interruption` to
the work that it starts, by `interruptible`, and calls `stop` when it has no more use for the
outcome. Long loops call `check_interruption` between pieces of work, and SQLite does so while a
statement runs. Work that nobody made interruptible pays one look-up for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from quoth.errors import Interrupted

_current: ContextVar[Interruption | None] = ContextVar("quoth_interruption", default=None)


class Interruption:
    """Tells some work to stop: at once by `stop`, or after so many seconds by itself.

    Work inside other work (`within`) stops where the other should, too.
    """

    def __init__(self, *, seconds: float | None = None, within: Interruption | None = None) -> None:
        self._is_stopped = False  # set from any thread, and never waited for
        self._within = within
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def stop(self) -> None:
        """Tell the work to stop; any thread may."""
        self._is_stopped = True

    @property
    def is_due(self) -> bool:
        """Whether the work should stop."""
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or self._is_stopped or (self._within is not None and self._within.is_due)

    def check(self) -> None:
        """Stop here where the work should."""
        if self.is_due:
            raise Interrupted("the work was given up: it took too long, or nobody waits for it")


@contextmanager
def interruptible(interruption: Interruption) -> Iterator[Interruption]:
    """Let this thread's work in the block be stopped from outside."""
    before = _current.set(interruption)
    try:
        yield interruption
    finally:
        _current.reset(before)


def current_interruption() -> Interruption | None:
    """Return what may stop this thread's work, None where nothing may."""
    return _current.get()


def check_interruption() -> None:
    """Stop here where this thread's work should stop; call it between pieces of long work.

    >>> with interruptible(Interruption()) as given:
    ...     check_interruption()
    ...     given.stop()
    ...     check_interruption()
    Traceback (most recent call last):
    quoth.errors.Interrupted: the work was given up: it took too long, or nobody waits for it
    """
    given = _current.get()
    if given is not None:
        given.check()
