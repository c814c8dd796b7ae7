"""Time one query at a time, the same way for every searcher, so that the figures compare.

Percentiles follow the nearest-rank definition: each is a latency that was in fact measured, never
an interpolation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import fmean

from quoth.errors import EvaluationError
from quoth.records import Query


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


def measure_latency(
    search_one: Callable[[Query], object],
    queries: Sequence[Query],
    *,
    warm_up: int = 10,
    repeats: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Latency:
    """Search `warm_up` queries untimed, then all queries `repeats` times over, timing each call.

    The warm-up takes queries from the start, over again where there are fewer. `clock` gives
    seconds.
    """
    if not queries or repeats < 1 or warm_up < 0:
        raise EvaluationError(
            f"cannot time {len(queries)} queries, {repeats} times, after {warm_up} for warming up; "
            "expected at least one query, one repeat, and no negative warm-up"
        )
    for query in islice(cycle(queries), warm_up):
        search_one(query)
    return summarise([_time(search_one, query, clock) for _ in range(repeats) for query in queries])


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


def _time(search_one: Callable[[Query], object], query: Query, clock: Callable[[], float]) -> float:
    start = clock()
    search_one(query)
    return clock() - start
