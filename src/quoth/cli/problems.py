"""Problems of the input, as a command tells them: the first ones as they come, then how many."""

from __future__ import annotations

from quoth.cli import show
from quoth.records import Problem


class Problems:
    """Shows the first problems as they come and keeps count of the rest; without limit, a list.

    With `once`, what was told before is not told again.
    """

    def __init__(self, limit: int | None, *, once: bool = False) -> None:
        self.lines: list[str] = []
        self._limit = limit
        self._once = once
        self._told: set[str] = set()
        self._count = 0

    def __call__(self, problem: Problem) -> None:
        line = str(problem)
        if self._once and line in self._told:
            return
        self._told.add(line)
        self._count += 1
        if self._limit is None:
            self.lines.append(line)
        elif self._count <= self._limit:
            show.note(f"skipped {line}")

    def tell_rest(self) -> None:
        """Say how many problems were not shown, and begin to count anew."""
        if self._limit is not None and self._count > self._limit:
            show.note(f"… and {self._count - self._limit:,} more (--json lists them all)")
        self._count = 0
