"""What is told of feedback follows from what was measured of every query."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.learn.feedback import NOTHING, TRIED, cut, sum_up

from quoth.records import Document


def _row(name: str, gain: float) -> dict[str, Any]:
    return {
        "set": name,
        "by_query": {
            f"{weight} of {count}": {
                "nDCG@10": [0.5 + gain * weight, 0.25],
                "RR@10": [0.2, 0.1667 if weight else 0.5],
            }
            for weight, count in TRIED
        },
    }


def test_differences_are_means_of_sets_against_no_weight() -> None:
    found = sum_up([_row("a", 0.5), _row("b", -0.25)])
    assert [(each["weight"], each["hits"]) for each in found] == list(TRIED[1:])
    assert NOTHING not in TRIED[1:]
    one = next(each for each in found if (each["weight"], each["hits"]) == (0.4, 2))
    assert one["difference"] == pytest.approx((0.1 - 0.05) / 2, abs=1e-4)
    assert (one["worst"], one["worst_difference"]) == ("b", pytest.approx(-0.05))
    assert (one["sets"], one["queries"], one["before"]) == (2, 4, 0.375)
    assert (one["found_in_five"], one["found_in_five_then"]) == (1.0, 0.5)
    assert one["low"] <= one["difference"] <= one["high"]


def test_without_sets_there_is_nothing_to_tell() -> None:
    assert sum_up([]) == []


def test_a_cut_collection_keeps_what_is_judged_and_the_order() -> None:
    documents = [Document(f"d{at}", {"text": ("owl",)}) for at in range(20)]
    kept = [each.docid for each in cut(documents, {"d3", "d17"}, most=6)]
    assert len(kept) == 6 and {"d3", "d17"} <= set(kept)
    assert kept == sorted(kept, key=lambda docid: int(docid[1:]))
    assert len(cut(documents, {"d3"}, most=100)) == 20
    assert [each.docid for each in cut(documents, {"d3", "d17"}, most=1)] == ["d3", "d17"]
