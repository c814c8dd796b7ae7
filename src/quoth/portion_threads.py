"""Threads that work on portions: for work that does without Python's lock most of the time."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

AHEAD = 3
"""Portions at hand for each worker, the caller included; they bound what is held in memory."""

P = TypeVar("P")
R = TypeVar("R")


class Slot(Generic[P, R]):
    """A portion and what became of it."""

    def __init__(self, work: Callable[[P], R], portion: P) -> None:
        self.work = work
        self.portion = portion
        self.is_done = threading.Event()
        self._results: list[R] = []

    def put(self, result: R) -> None:
        """Keep the result."""
        self._results.append(result)

    def give(self) -> R:
        """Return the result; where there is none, it is worked out here, with all its errors."""
        return self._results.pop() if self._results else self.work(self.portion)


class _Source(Generic[P, R]):
    """Portions that are drawn one by one; an error comes after what was drawn before it."""

    def __init__(self, work: Callable[[P], R], portions: Iterator[P]) -> None:
        self._work = work
        self._portions = portions
        self._failure: Exception | None = None

    def draw(self) -> list[Slot[P, R]]:
        """Draw the next portion; none at the end."""
        if self._failure is not None:
            return []
        try:
            return [Slot(self._work, portion) for portion in islice(self._portions, 1)]
        except Exception as error:
            self._failure = error
            return []

    def raise_failure(self) -> None:
        """Raise what ended the drawing, if anything did."""
        if self._failure is not None:
            raise self._failure


class Crew:
    """Threads that share the work with the one that asks for it."""

    def __init__(self, workers: int) -> None:
        self._waiting: queue.SimpleQueue[Slot[Any, Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        for _worker in range(workers):
            self._hire()

    def _hire(self) -> None:
        """Start one that takes part."""
        self._start_thread(self._take_all)

    def _start_thread(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def run(self, work: Callable[[P], R], portions: Iterator[P]) -> Generator[R, None, None]:
        """Yield results in order, and work on portions while the next result is not there."""
        slots: deque[Slot[P, R]] = deque()
        most, source = AHEAD * (1 + len(self._threads)), _Source(work, portions)
        try:
            while True:
                if slots and slots[0].is_done.is_set():
                    yield slots.popleft().give()
                elif len(slots) < most and (drawn := source.draw()):
                    slots.extend(drawn)
                    self._waiting.put(drawn[0])
                elif slots:
                    self._take_part(slots[0])
                else:
                    source.raise_failure()
                    return
        finally:
            self._forget_waiting()

    def _forget_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()

    def _take_part(self, awaited: Slot[P, R]) -> None:
        """Work on the next portion that nobody has taken; where there is none, wait."""
        try:
            slot = self._waiting.get_nowait()
        except queue.Empty:
            awaited.is_done.wait()
            return
        if slot is not None:
            _work_on(slot)

    def _take_all(self) -> None:
        """Work on portions until there will be none."""
        while (slot := self._waiting.get()) is not None:
            _work_on(slot)

    def close(self) -> None:
        """End the threads; each finishes the portion that it has."""
        self._forget_waiting()
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()


def _work_on(slot: Slot[Any, Any]) -> None:
    with contextlib.suppress(Exception):  # it is met again when its turn comes
        slot.put(slot.work(slot.portion))
    slot.is_done.set()
