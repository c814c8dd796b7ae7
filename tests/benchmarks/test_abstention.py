"""AUROC of abstention against all pairs, and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.citations.abstention import ranking_area, ranking_interval
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import EvaluationError

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=8)


@given(answerable=SCORES, unanswerable=SCORES)
def test_is_the_share_of_ordered_pairs(answerable: list[float], unanswerable: list[float]) -> None:
    pairs = [(a > u) + (a == u) / 2 for a in answerable for u in unanswerable]
    assert ranking_area(answerable, unanswerable) == pytest.approx(sum(pairs) / len(pairs))


def test_interval_is_near_the_one_of_hanley_and_mcneil() -> None:
    generator = np.random.default_rng(0)
    good, bad = generator.normal(1, 1, 300).tolist(), generator.normal(0, 1, 300).tolist()
    area = ranking_area(good, bad)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (area * (1 - area) + 299 * (q1 - area**2) + 299 * (q2 - area**2)) / 300**2
    interval = ranking_interval(good, bad, num_resamples=2_000)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * variance**0.5, rel=0.15)
    assert interval.low < area < interval.high


def test_the_seed_decides() -> None:
    good, bad = [1.0, 2.0, 0.5, 3.0], [0.0, 1.5, 2.5]
    one, same = (ranking_interval(good, bad, seed=1, num_resamples=50) for _ in range(2))
    assert one == same


@pytest.mark.parametrize(
    ("answerable", "unanswerable", "message"),
    [([], [1.0], "expected some of both"), ([float("nan")], [1.0], "NaN")],
)
def test_what_cannot_be_measured(
    answerable: list[float], unanswerable: list[float], message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        ranking_area(answerable, unanswerable)


def test_confidence_is_a_share() -> None:
    with pytest.raises(EvaluationError, match="confidence is 95"):
        ranking_interval([1.0], [0.0], confidence=95)
