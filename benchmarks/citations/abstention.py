"""Measure how well a score tells answerable questions from unanswerable ones.

The area under the ROC curve is the chance that an answerable question scores above an unanswerable
one, ties counted half (Mann and Whitney 1947); its interval is bootstrapped with either kind drawn
on its own, so that the numbers of both stay as they are. Whether probabilities are what they say
is seen in a reliability diagram, and summed up by the expected calibration error (Naeini et al.
2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quoth.errors import EvaluationError
from quoth.evaluation.significance import NUM_RESAMPLES, Interval


def ranking_area(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """Return the AUROC of scores that should be higher for answerable questions.

    >>> ranking_area([0.9, 0.4], [0.4, 0.1])  # (1 + 1 + 1/2 + 1) / 4
    0.875
    """
    return _area(*_arrays(answerable, unanswerable))


def ranking_interval(
    answerable: Sequence[float],
    unanswerable: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> Interval:
    """Bootstrap a confidence interval of the AUROC.

    >>> ranking_interval([3.0, 2.0], [1.0, 0.0], num_resamples=100)
    Interval(low=1.0, high=1.0)
    """
    positive, negative = _arrays(answerable, unanswerable)
    if not 0.0 < confidence < 1.0:
        raise EvaluationError(f"confidence is {confidence}; expected a share, such as 0.95")
    generator = np.random.default_rng(seed)
    areas = [
        _area(generator.choice(positive, len(positive)), generator.choice(negative, len(negative)))
        for _ in range(num_resamples)
    ]
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(areas, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


@dataclass(frozen=True)
class Bin:
    """Questions with about the same probability of an answer."""

    predicted: float
    observed: float
    count: float


def reliability(
    probabilities: Sequence[float],
    truths: Sequence[bool],
    *,
    counts: Sequence[float] | None = None,
    num_bins: int = 10,
) -> list[Bin]:
    """Compare probabilities with how often they came true, in bins of equal width; empty ones go.

    `counts` is how often each question counts, once unless given.

    >>> reliability([0.05, 0.95, 0.93], [False, True, False])
    [Bin(predicted=0.05, observed=0.0, count=1.0), Bin(predicted=0.94, observed=0.5, count=2.0)]
    """
    values, held = np.array(probabilities, dtype=np.float64), np.array(truths, dtype=np.float64)
    weights = np.ones(len(values)) if counts is None else np.array(counts, dtype=np.float64)
    numbers = np.minimum((values * num_bins).astype(np.int64), num_bins - 1)
    bins = []
    for own in (numbers == number for number in range(num_bins)):
        if own.any():
            shares = weights[own] / weights[own].sum()
            means = float(shares @ values[own]), float(shares @ held[own])
            bins.append(Bin(*means, float(weights[own].sum())))
    return bins


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error: how far bins are off, weighted by their questions.

    >>> calibration_error([Bin(0.25, 0.0, 1), Bin(1.0, 0.5, 3)])  # (0.25 + 3 · 0.5) / 4
    0.4375
    """
    return sum(each.count * abs(each.predicted - each.observed) for each in bins) / sum(
        each.count for each in bins
    )


def _arrays(
    answerable: Sequence[float], unanswerable: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not len(answerable) or not len(unanswerable):
        raise EvaluationError(
            f"abstention cannot be measured on {len(answerable)} answerable and"
            f" {len(unanswerable)} unanswerable questions; expected some of both"
        )
    both = np.array(answerable, dtype=np.float64), np.array(unanswerable, dtype=np.float64)
    if any(np.isnan(each).any() for each in both):
        raise EvaluationError("a score is NaN; abstention needs numbers that can be ordered")
    return both


def _area(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left")
    not_above = np.searchsorted(ordered, positive, side="right")
    return float((below + not_above).sum() / (2 * len(positive) * len(negative)))
