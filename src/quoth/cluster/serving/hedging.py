"""When to ask a second replica as well, because the first is slow (Dean and Barroso 2013).

A search waits for its slowest shard. So a question that is not answered after the time in which 95
of 100 recent ones were is put to another replica, too, and the first answer counts. Questions earn
the right to a share of such repetitions, which bounds what they cost while everything is slow.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass, replace

RECENT = 256
"""Answers whose times are remembered."""

FEWEST = 32
"""Answers that are needed to know what is slow."""

SLOW = 0.95
_MOST_CREDIT = 8.0
_LOOKED_AT_EVERY = 16


@dataclass(frozen=True, slots=True)
class LineCounts:
    """What was asked of the replicas of one shard so far."""

    asked: int = 0
    hedged: int = 0
    """Questions that were put to a second replica."""

    won: int = 0
    """Those of them that the second replica answered first."""


class Hedging:
    """Knows how long answers of one shard take, and how many questions may be put twice."""

    def __init__(self, share: float) -> None:
        """Let up to this share of questions be put to a second replica; 0 for none."""
        self._share = share
        self._credit = 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._since = 0
        self._patience = math.inf
        self._counts = LineCounts()
        self._lock = threading.Lock()

    @property
    def counts(self) -> LineCounts:
        """What was asked so far."""
        return self._counts

    @property
    def patience(self) -> float:
        """Seconds after which an answer is slow; without end as long as that is not known."""
        return self._patience

    def begin(self) -> None:
        """Count a question."""
        with self._lock:
            self._counts = replace(self._counts, asked=self._counts.asked + 1)
            self._credit = min(_MOST_CREDIT, self._credit + self._share)

    def take(self) -> bool:
        """Ask for the right to put a question twice, and spend it."""
        with self._lock:
            if self._credit < 1.0:
                return False
            self._credit -= 1.0
            self._counts = replace(self._counts, hedged=self._counts.hedged + 1)
            return True

    def note(self, seconds: float, *, by_second: bool) -> None:
        """Note how long an answer took, and which replica gave it."""
        with self._lock:
            if by_second:
                self._counts = replace(self._counts, won=self._counts.won + 1)
            self._recent.append(seconds)
            self._since += 1
            if len(self._recent) >= FEWEST and self._since >= _LOOKED_AT_EVERY:
                self._since, self._patience = 0, slow_after(list(self._recent))


def slow_after(seconds: list[float]) -> float:
    """Return the time within which 95 of 100 were answered.

    >>> slow_after([float(each) for each in range(100, 0, -1)])
    95.0
    """
    return sorted(seconds)[math.ceil(SLOW * len(seconds)) - 1]
