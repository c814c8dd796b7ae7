"""What is told of a limit to familiarity follows from the trials on either side of it."""

from __future__ import annotations

import json

import pytest
from benchmarks.learn.familiar import (
    RESULTS,
    correlate_sets,
    gate,
    gate_left_out,
    mean_changes,
    sum_up,
)
from benchmarks.learn.repeats import LearningTrial

RELEVANCE = {"strange": 2.0, "new": 3.0, "known": 5.0}
TRIALS = [
    *(LearningTrial("strange", change, True, {}) for change in (0.01, 0.03)),
    LearningTrial("new", 0.004, True, {}),
    LearningTrial("known", -0.012, True, {}),
]


def test_collections_below_the_limit_change_and_others_stay() -> None:
    found = gate(RELEVANCE, TRIALS, limit=4.0)
    assert found["taken"] == ["new", "strange"]
    assert found["mean"] == pytest.approx((0.02 + 0.004) / 3)
    assert found["always"] == pytest.approx((0.02 + 0.004 - 0.012) / 3)
    assert found["worst"] == 0.004
    assert gate(RELEVANCE, TRIALS, limit=1.0)["mean"] == 0.0


def test_a_limit_is_judged_by_the_collection_that_did_not_choose_it() -> None:
    found = gate_left_out(RELEVANCE, TRIALS)
    assert found["known"] == 0.0  # the others choose a limit just above 3
    assert found["strange"] == 0.02
    assert found["new"] == 0.0  # without it, the limit is just above the strange one's


def test_familiarity_goes_along_with_losses() -> None:
    assert mean_changes(TRIALS) == {"known": -0.012, "new": 0.004, "strange": 0.02}
    assert correlate_sets(RELEVANCE, TRIALS) < -0.9


def test_the_results_are_those_of_the_trials_that_were_kept() -> None:
    kept = json.loads(RESULTS.read_text())
    assert sum_up(kept["relevance"]) == {**kept, "quoth": sum_up(kept["relevance"])["quoth"]}
