"""What is told of repeated trials follows from what each of them changed."""

from __future__ import annotations

import pytest
from benchmarks.learn.repeats import LearningTrial, sum_up

TRIALS = (
    LearningTrial("a", 0.02, True, {"pseudo-queries": 0.01, "known items": 0.03}, 0.01),
    LearningTrial("a", 0.01, False, {"pseudo-queries": 0.02, "known items": 0.02}, 0.02),
    LearningTrial("b", -0.02, True, {"pseudo-queries": 0.05, "known items": 0.01}, 0.04),
    LearningTrial("b", -0.01, True, {}, 0.03),
)


def test_trials_are_summed_up_all_and_used() -> None:
    found = sum_up(TRIALS)
    assert (found["trials"], found["mean"]) == (4, 0.0)
    assert (found["used"], found["mean_used"]) == (3, pytest.approx(-0.01 / 3, abs=1e-4))
    assert (found["lowest"], found["highest"]) == (-0.02, 0.02)
    assert found["by_set"] == {"a": [0.02, 0.01], "b": [-0.02, -0.01]}


def test_what_held_out_queries_showed_is_correlated_where_it_was_noted() -> None:
    found = sum_up(TRIALS)["correlation"]
    assert found["pseudo-queries"] < 0 < found["known items"]
    assert found["other trials"] == pytest.approx(0.8)
    assert found["gain of reranking"] < -0.8
