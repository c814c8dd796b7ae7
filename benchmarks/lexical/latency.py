"""Time one query at a time, the same way for every searcher, so that the figures compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice

from quoth.errors import EvaluationError
from quoth.evaluation.latency import Latency, summarise
from quoth.records import Query


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


def _time(search_one: Callable[[Query], object], query: Query, clock: Callable[[], float]) -> float:
    start = clock()
    search_one(query)
    return clock() - start
