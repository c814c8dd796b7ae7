"""Work on portions one after another, with others taking some where there is much to do.

What comes out is the same, in the same order, whether others take part or not: a portion is handed
to a pure function, and whoever is free takes the next one. The caller takes part as well, so two
cores need one more. Others are threads where the work is done in compiled code, without Python's
lock, and else processes. These are started only once some portions have been worked on and there
are more; those that are kept from earlier work take part at once. They end with the work or with
the block of `kept_workers`, and by themselves where the caller dies, as nobody writes to them any
more. A portion that fails elsewhere is worked on again by the caller, so errors are the same,
too.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextvars import ContextVar
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from quoth.portion_threads import Crew

if TYPE_CHECKING:
    from quoth.portion_workers import ProcessCrew

_ALONE = 2
"""Portions that the caller works on alone: starting a process costs about as much as one."""

_ALONE_BEFORE_THREADS = 1
"""Portions before a thread is started, which costs next to nothing: most writes have one."""

P = TypeVar("P")
R = TypeVar("R")


def count_workers(most: int) -> int:
    """Return how many processes may take part besides this one.

    >>> count_workers(0)
    0
    """
    return min(most, _count_cores() - 1)


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_portions(
    work: Callable[[P], R], portions: Iterable[P], *, workers: int, in_threads: bool = False
) -> Generator[R, None, None]:
    """Yield what `work` makes of each portion, in order.

    `work` must be a function of a module, or a partial one, that depends on nothing but what it is
    given; with `in_threads`, it should seldom need Python's lock. Portions are drawn by this thread
    alone. Close the generator to stop early.

    >>> list(map_portions(len, ["an", "owl"], workers=1))
    [2, 3]
    """
    source = iter(portions)
    calmly = functools.partial(_work_undisturbed, work)
    alone = _ALONE_BEFORE_THREADS if in_threads else 0 if _are_waiting() else _ALONE
    yield from map(calmly, source if workers <= 0 else islice(source, alone))
    first = list(islice(source, 1))
    if first:
        with (
            _hire(workers, in_threads=in_threads) as crew,
            contextlib.closing(crew.run(calmly, chain(first, source))) as done,
        ):
            yield from done


def _work_undisturbed(work: Callable[[P], R], portion: P) -> R:
    """Work on a portion while Python does not search for dead objects that hold each other.

    Records are no such objects, but all of them would be looked at again and again while many are
    made. A portion is small, so it is soon enough to search when it is done.
    """
    if not gc.isenabled():  # another thread is at work, or whoever embeds us wants it so
        return work(portion)
    gc.disable()
    try:
        return work(portion)
    finally:
        gc.enable()


@contextlib.contextmanager
def kept_workers() -> Iterator[None]:
    """Let processes that are started in this block wait for more work until it ends."""
    with contextlib.ExitStack() as kept:
        token = _kept.set(_Kept(kept))
        try:
            yield
        finally:
            _kept.reset(token)


class _Kept:
    """The processes that a block keeps, if any were started."""

    def __init__(self, until: contextlib.ExitStack) -> None:
        self._until = until
        self._crew: ProcessCrew | None = None

    @property
    def are_started(self) -> bool:
        """Whether there are any."""
        return self._crew is not None

    def get(self, workers: int) -> ProcessCrew:
        """Return them; they are started when first asked for."""
        if self._crew is None:
            self._crew = _start(workers)
            self._until.callback(self._crew.close)
        return self._crew


_kept: ContextVar[_Kept | None] = ContextVar("quoth_kept_workers", default=None)


def _are_waiting() -> bool:
    """Whether processes were started before and wait for more work."""
    kept = _kept.get()
    return kept is not None and kept.are_started


@contextlib.contextmanager
def _hire(workers: int, *, in_threads: bool) -> Iterator[Crew]:
    kept = _kept.get()
    if kept is not None and not in_threads:
        yield kept.get(workers)
        return
    crew = Crew(workers) if in_threads else _start(workers)
    try:
        yield crew
    finally:
        crew.close()


def _start(workers: int) -> ProcessCrew:
    """Start processes; what that takes is imported only where there are any."""
    from quoth.portion_workers import ProcessCrew

    return ProcessCrew(workers)
