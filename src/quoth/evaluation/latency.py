"""Sum up the times of single queries, the same way for every searcher, so that figures compare.

Percentiles follow the nearest-rank definition: each is a latency that was in fact measured, never
an interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a searcher took for single queries, in milliseconds.

    `queries_per_second` counts the time inside the searcher alone, one query after the other; it is
    infinite if the clock never moved.
    """

    count: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    queries_per_second: float


def summarise(seconds: Sequence[float]) -> Latency:
    """Describe measured times, of which there must be at least one.

    >>> summarise([0.001, 0.003])
    Latency(count=2, mean_ms=2.0, p50_ms=1.0, p90_ms=3.0, p99_ms=3.0, max_ms=3.0, \
queries_per_second=500.0)
    """
    ordered = sorted(1000.0 * second for second in seconds)
    total = sum(seconds)
    return Latency(
        count=len(ordered),
        mean_ms=fmean(ordered),
        p50_ms=nearest_rank(ordered, percent=50),
        p90_ms=nearest_rank(ordered, percent=90),
        p99_ms=nearest_rank(ordered, percent=99),
        max_ms=ordered[-1],
        queries_per_second=len(ordered) / total if total > 0 else float("inf"),
    )


def nearest_rank(ordered: Sequence[float], *, percent: int) -> float:
    """Return the smallest of the ascending values that `percent` (1 to 100) do not exceed.

    >>> [nearest_rank([15, 20, 35, 40, 50], percent=p) for p in (5, 30, 40, 50, 100)]
    [15, 20, 20, 35, 50]
    """
    rank = -(-percent * len(ordered) // 100)  # rounds up, in whole numbers
    return ordered[rank - 1]
