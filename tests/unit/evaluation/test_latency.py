"""Percentiles by their definition."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.evaluation.latency import nearest_rank, summarise


def test_a_clock_that_stands() -> None:
    assert summarise([0.0]).queries_per_second == math.inf


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 100))
@settings(derandomize=True, deadline=None)
def test_nearest_rank_by_definition(values: list[int], percent: int) -> None:
    ordered = sorted(values)
    enough = [v for v in ordered if 100 * sum(w <= v for w in ordered) >= percent * len(ordered)]
    assert nearest_rank(ordered, percent=percent) == enough[0]
