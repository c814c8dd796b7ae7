"""Latency with a clock that the searcher itself moves."""

from __future__ import annotations

import pytest
from benchmarks.lexical.latency import measure_latency

from quoth.errors import EvaluationError
from quoth.records import Query

QUERIES = [Query(str(i), "text") for i in range(1, 5)]


class Searcher:
    """Takes as many seconds for a query as its qid says, on its own clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.searched: list[str] = []

    def search_one(self, query: Query) -> None:
        self.searched.append(query.qid)
        self.now += float(query.qid)


def test_arithmetic() -> None:
    searcher = Searcher()
    latency = measure_latency(
        searcher.search_one, QUERIES, warm_up=0, repeats=2, clock=lambda: searcher.now
    )
    assert latency.count == 2 * 4
    assert latency.mean_ms == pytest.approx(1000 * (1 + 2 + 3 + 4) / 4)
    assert (latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.max_ms) == (2e3, 4e3, 4e3, 4e3)
    assert latency.queries_per_second == pytest.approx(8 / (2 * (1 + 2 + 3 + 4)))


def test_the_warm_up_is_not_timed() -> None:
    searcher = Searcher()
    latency = measure_latency(searcher.search_one, QUERIES, warm_up=5, clock=lambda: searcher.now)
    assert searcher.searched == ["1", "2", "3", "4", "1", "1", "2", "3", "4"]
    assert latency.count == 4


@pytest.mark.parametrize(
    ("queries", "options"), [([], {}), (QUERIES, {"repeats": 0}), (QUERIES, {"warm_up": -1})]
)
def test_nothing_to_time(queries: list[Query], options: dict[str, int]) -> None:
    with pytest.raises(EvaluationError, match="cannot time"):
        measure_latency(lambda query: None, queries, **options)  # type: ignore[arg-type]
