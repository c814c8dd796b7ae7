"""What is told of voices and their cost follows from what was measured of every query."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.learn.voices import CONFIGURATIONS, TRIED, sum_up, weigh_up


def _row(name: str, gain: float) -> dict[str, Any]:
    runs = {
        f"{searcher} {scale} {share}": [0.5 + gain * share, 0.25]
        for searcher in ("hybrid", "auto")
        for scale, share in TRIED
    }
    by_query = {run: {"nDCG@10": own} for run, own in ({"lexical": [0.0, 1.0]} | runs).items()}
    times = {each: 10.0 + gain for each in CONFIGURATIONS}
    return {"set": name, "by_query": by_query, "processor_ms_per_query": times}


def test_differences_are_means_of_sets_against_no_share() -> None:
    found = sum_up([_row("a", 1.0), _row("b", -0.5)])
    assert len(found) == 2 * (len(TRIED) - 1)
    one = next(each for each in found if (each["searcher"], each["share"]) == ("auto", 0.1))
    assert one["by_set"] == {"a": 0.05, "b": -0.025}
    assert one["difference"] == pytest.approx((0.05 - 0.025) / 2, abs=1e-4)
    assert (one["worst"], one["worst_difference"], one["queries"]) == ("b", -0.025, 4)
    assert one["low"] <= one["difference"] <= one["high"]


def test_every_configuration_has_its_time_and_what_was_judged_its_quality() -> None:
    found = {each["name"]: each for each in weigh_up([_row("a", 1.0), _row("b", -0.5)])}
    assert set(found) == set(CONFIGURATIONS)
    assert found["BM25"] == {
        "name": "BM25",
        "ms": 10.2,
        "least_ms": 9.5,
        "most_ms": 11.0,
        "nDCG@10": 0.5,
    }
    quality = ((0.5 + 0.2 + 0.25) / 2 + (0.5 - 0.1 + 0.25) / 2) / 2
    assert found["reranked, PIXAR"]["nDCG@10"] == pytest.approx(quality)
    assert found["reranked, likelihood"]["nDCG@10"] is None
