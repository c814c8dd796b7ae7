"""Let an index follow what is being stored: in a thread of its own, batch by batch.

Storing waits for the disk and for compiled code, and so does indexing; together they take little
more than the longer of the two. Nothing depends on the follower: what it leaves undone, for
whatever reason, is caught up on afterwards, as if it had not been there.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator

from quoth.errors import IndexMoved, Interrupted
from quoth.search.searcher import Progress

_ATTEMPTS = 3
"""How often it begins, as it has to again where a field comes that the index does not have, say."""

_LOOK_SECONDS = 0.1

Follow = Callable[[Iterator[int], Progress], None]
"""Indexes up to each change that it is given; the index is finished when there are no more."""


class Follower:
    """A thread that indexes batches while the next are stored."""

    def __init__(self, follow: Follow, *, last_change: Callable[[], int]) -> None:
        """`last_change` tells up to which change documents are stored."""
        self._follow = follow
        self._last_change = last_change
        self._changes: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: int | None = None
        self._has_all = self._is_given_up = False
        self._state = ("indexing words", 0, 0)

    def go_on(self) -> None:
        """Let it index what is stored by now; the first time begins."""
        self._changes.put(self._last_change())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def finish(self, progress: Progress) -> None:
        """Wait until all that is stored is indexed; it gives up if the waiting is cut short."""
        if self._thread is None:
            return
        self._changes.put(self._last_change())
        self._changes.put(None)
        try:
            while self._thread.is_alive():
                self._thread.join(_LOOK_SECONDS)
                progress(*self._state)
        except BaseException:
            self._is_given_up = True
            self._thread.join()
            raise

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # whoever catches up meets it again
            for _attempt in range(_ATTEMPTS):
                with contextlib.suppress(IndexMoved):
                    self._follow(self._further(), self._note)
                    return

    def _further(self) -> Iterator[int]:
        """Yield changes as they come; a new beginning takes the last one, and what follows."""
        if self._last is not None:
            yield self._last
        while not self._has_all:
            change = self._changes.get()
            if change is None:
                self._has_all = True
            else:
                self._last = change
                yield change

    def _note(self, what: str, done: int, total: int) -> None:
        if self._is_given_up:
            raise Interrupted("nobody waits for the index")
        self._state = (what, done, total)
