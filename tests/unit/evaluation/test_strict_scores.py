"""Scores fall strictly, also in the single precision of trec_eval."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.evaluation.strict_scores import LARGEST_SCORE, next_single_below, strictly_decreasing

SCORES = st.floats(-LARGEST_SCORE, LARGEST_SCORE)


@given(st.lists(SCORES, max_size=30))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_they_fall_in_single_and_in_double_precision(scores: list[float]) -> None:
    written = strictly_decreasing(scores)
    assert all(a > b for a, b in pairwise(written))
    singles = np.array(written, dtype=np.float32)
    assert bool(np.all(singles[:-1] > singles[1:]))


@given(SCORES.map(np.float32))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_the_step_is_numpys(single: np.float32) -> None:
    expected = np.nextafter(single, np.float32(-np.inf), dtype=np.float32)
    assert next_single_below(float(single)) == float(expected)


def test_scores_that_fall_are_kept_in_full_precision() -> None:
    scores = [0.1 + 0.2, 0.1, 1e-9, 0.0, -3.3]
    assert strictly_decreasing(scores) == scores


def test_ties_step_down_by_one_unit_in_the_last_place() -> None:
    assert strictly_decreasing([1.0, 1.0, 1.0]) == [1.0, 1.0 - 2**-24, 1.0 - 2 * 2**-24]


def test_differences_below_single_precision_are_ties() -> None:
    assert strictly_decreasing([1.0 + 1e-12, 1.0]) == [1.0 + 1e-12, 1.0 - 2**-24]


def test_the_order_given_wins_over_the_scores() -> None:
    assert strictly_decreasing([1.0, 5.0]) == [1.0, 1.0 - 2**-24]


def test_numpy_scores_come_out_as_plain_floats() -> None:
    assert repr(strictly_decreasing([np.float64(1.5)])) == "[1.5]"


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_below_zero(zero: float) -> None:
    assert strictly_decreasing([zero, zero]) == [0.0, -(2**-149)]
