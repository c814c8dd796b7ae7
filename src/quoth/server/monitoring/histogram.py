"""Durations counted in buckets, the same for every histogram of a server.

Buckets add up over time and over servers, which quantiles do not: whoever collects them can ask
for the quantiles of any hour of any number of servers.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
"""Largest duration of each bucket but the last, which has no bound; seconds."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many durations were at most as long as each bound, how many there were, and their sum."""

    cumulative: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """Return the number of durations."""
        return self.cumulative[-1]

    def __add__(self, other: Histogram) -> Histogram:
        """Return the histogram of both.

        >>> (NO_DURATIONS + NO_DURATIONS) == NO_DURATIONS
        True
        """
        both = zip(self.cumulative, other.cumulative, strict=True)
        return Histogram(tuple(one + another for one, another in both), self.total + other.total)


NO_DURATIONS = Histogram((0,) * (len(BOUNDS) + 1), 0.0)
"""The histogram of nothing."""


class DurationCounter:
    """Counts durations; whoever shares it between threads brings the lock.

    >>> counter = DurationCounter()
    >>> for seconds in (0.001, 0.002, 500.0):
    ...     counter.note(seconds)
    >>> found = counter.histogram()
    >>> found.cumulative[:3], found.count
    ((1, 2, 2), 3)
    """

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def note(self, seconds: float) -> None:
        """Count one duration; one equal to a bound belongs below it."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._total += seconds

    def histogram(self) -> Histogram:
        """Return what was counted so far."""
        return Histogram(tuple(accumulate(self._counts)), self._total)
