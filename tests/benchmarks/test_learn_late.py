"""What is told of late interaction follows from what was measured of every query."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.learn.late import BEFORE, HYBRID, STATES, WITHOUT, sum_up, sum_up_learning


def _row(name: str, gain: float, *, used: bool) -> dict[str, Any]:
    states = {state: [0.5 + gain, 0.25] for state in STATES}
    found = states | {WITHOUT: [0.5, 0.25], HYBRID: [0.25, 0.25], "learned": [0.75, 0.75]}
    return {"set": name, "used": {"learned": used}, "by_query": {"test": found}}


def test_differences_are_means_of_sets_against_none() -> None:
    found = sum_up([_row("a", 0.5, used=True), _row("b", -0.25, used=True)], chooses=False)
    by_state = {each["state"]: each for each in found}
    assert by_state.keys() == {HYBRID, *STATES}
    assert by_state[WITHOUT]["difference"] == 0.0
    assert by_state[BEFORE]["difference"] == pytest.approx((0.25 - 0.125) / 2)
    assert by_state[BEFORE]["mean"] == pytest.approx((0.625 + 0.25) / 2, abs=1e-4)
    assert (by_state[BEFORE]["worst"], by_state[BEFORE]["queries"]) == ("b", 4)


def test_queries_that_choose_do_not_judge() -> None:
    row = _row("scifact", 0.5, used=True)
    row["by_query"]["train"] = row["by_query"]["test"]
    assert len(sum_up([row], chooses=True)[0]["by_set"]) == 1
    assert sum_up([_row("a", 0.5, used=True)], chooses=True) == []


def test_what_held_out_queries_refuse_changes_nothing() -> None:
    taken, refused = _row("a", 0.0, used=True), _row("b", 0.0, used=False)
    (found,) = sum_up_learning([taken, refused])
    assert found["by_set"] == {"a": pytest.approx(0.75 - 0.375), "b": 0.0}
    assert found["mean"] == pytest.approx((0.75 + 0.375) / 2, abs=1e-4)
