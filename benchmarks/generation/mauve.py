"""MAUVE: how close the distribution of generated texts comes to that of human ones.

Pillutla et al. 2021. Texts are feature vectors of some language model, which the caller states. All
vectors are scaled to length 1, turned to the principal axes that hold 90 % of their variance, and
cut into as many k-means cells as a tenth of the smaller side. P and Q are the shares of the cells;
with R = w P + (1 - w) Q, the curve of (exp(-c KL(Q|R)), exp(-c KL(P|R))) over w is drawn, and the
score is the area under it.

The published package clusters with FAISS; here k-means is a few lines of numpy. From the same cells
both give the same score; their cells differ as those of two seeds do. (The package sorts the points
of the curve, which are in order already: where P equals Q, ties may then cost it a part of the 1.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quoth.constraints import AtLeastOne, CheckedConfig, Positive, PositiveShare, Range, Seed
from quoth.errors import EvaluationError

Floats = NDArray[np.float64]

_NEARLY = 1e-6  # the mixtures at the ends of the curve are not quite P and Q
_MAX_ENTRIES = 1 << 24  # numbers in the array of differences when cells are compared


@dataclass(frozen=True, slots=True)
class MauveConfig(CheckedConfig, title="MAUVE"):
    """How MAUVE quantises and what it multiplies divergences by."""

    scaling: Positive = 2.0
    """What divergences are multiplied by: 2 as in the CoG and Dynamic Vocabulary papers."""

    num_cells: Annotated[int, Range(2, or_zero=True)] = 0
    """Cells of the quantisation; 0 takes a tenth of the smaller side, 2 at least."""

    variance: PositiveShare = 0.9
    """Share of the variance that the kept principal axes hold."""

    num_points: Annotated[int, Range(2)] = 25
    """Mixtures at which the divergence curve is computed, its two ends aside."""

    restarts: AtLeastOne = 5
    """How often k-means starts over; the tightest cells are kept."""

    max_rounds: AtLeastOne = 500
    """Rounds of k-means at most."""

    seed: Seed = 25
    """What draws the first centres."""


def mauve(
    human: Floats,  # (N, D)
    generated: Floats,  # (M, D)
    config: MauveConfig,
) -> float:
    """Score feature vectors of generated texts against those of human ones, from 0 to 1."""
    _check(human, generated)
    cells, num_cells = quantise(human, generated, config)
    shares = [
        np.bincount(own, minlength=num_cells) / len(own)
        for own in (cells[: len(human)], cells[len(human) :])
    ]
    return divergence_area(shares[0], shares[1], scaling=config.scaling, points=config.num_points)


def divergence_area(p: Floats, q: Floats, *, scaling: float, points: int = 25) -> float:
    """Return the area under the divergence curve of two distributions over the same cells.

    >>> uniform = np.array([0.5, 0.5])
    >>> round(divergence_area(uniform, uniform, scaling=2.0), 6)
    1.0
    >>> round(divergence_area(np.array([1.0, 0.0]), np.array([0.0, 1.0]), scaling=5.0), 3)
    0.004
    """
    curve = [(0.0, np.inf)]
    for weight in np.linspace(_NEARLY, 1 - _NEARLY, points):
        mixture = weight * p + (1 - weight) * q
        curve.append((_divergence(q, mixture), _divergence(p, mixture)))
    curve.append((np.inf, 0.0))
    x, y = np.exp(-scaling * np.array(curve)).T  # x falls from 1 to 0 while y rises
    return float(np.trapezoid(y[::-1], x[::-1]))


def quantise(
    human: Floats, generated: Floats, config: MauveConfig
) -> tuple[NDArray[np.int64], int]:
    """Put every text into a cell, the human ones first, and say how many cells there are."""
    features = np.vstack([human, generated]).astype(np.float64)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    smaller = min(len(human), len(generated))
    num_cells = config.num_cells or max(2, round(smaller / 10))
    turned = _principal(features, variance=config.variance)
    generator = np.random.default_rng(config.seed)
    found = [
        _cluster(turned, num_cells, generator=generator, max_rounds=config.max_rounds)
        for _ in range(config.restarts)
    ]
    return min(found, key=lambda each: each[0])[1], num_cells


def _check(human: Floats, generated: Floats) -> None:
    is_pair = human.ndim == generated.ndim == 2 and human.shape[1:] == generated.shape[1:]
    if not is_pair or min(len(human), len(generated)) < 2:
        raise EvaluationError(
            f"MAUVE compares two arrays of features, found shapes {human.shape} and"
            f" {generated.shape}; expected (N, D) and (M, D) with 2 texts at least on each side"
        )
    if not (np.isfinite(human).all() and np.isfinite(generated).all()):
        raise EvaluationError("features hold numbers that are not finite; MAUVE needs finite ones")


def _divergence(p: Floats, q: Floats) -> float:
    """Kullback-Leibler divergence in nats; cells where p is 0 add nothing."""
    held = p > 0
    return float(np.sum(p[held] * np.log(p[held] / q[held])))


def _principal(features: Floats, *, variance: float) -> Floats:  # (N, D) → (N, d)
    centred = features - features.mean(axis=0)
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    total = float((spread**2).sum())
    if total == 0.0:  # all texts are alike
        return np.zeros((len(features), 1))
    held = np.cumsum(spread**2) / total
    kept = min(int(np.argmax(held >= min(variance, held[-1]))) + 1, len(spread))
    turned: Floats = centred @ axes[:kept].T
    return turned


def _cluster(
    points: Floats, num_cells: int, *, generator: np.random.Generator, max_rounds: int
) -> tuple[float, NDArray[np.int64]]:
    """Run Lloyd's k-means once: the sum of squared distances, and the cell of each point."""
    centres = _first_centres(points, num_cells, generator)
    cells, distances = _nearest(points, centres)
    for _ in range(max_rounds):
        for cell in range(num_cells):
            own = cells == cell
            # An empty cell takes the point that lies farthest from its centre.
            centres[cell] = points[own].mean(axis=0) if own.any() else points[distances.argmax()]
        before = cells
        cells, distances = _nearest(points, centres)
        if np.array_equal(before, cells):
            break
    return float(distances.sum()), cells


def _first_centres(points: Floats, num_cells: int, generator: np.random.Generator) -> Floats:
    """Draw centres far from one another (k-means++, Arthur and Vassilvitskii 2007)."""
    chosen = [int(generator.integers(len(points)))]
    distances = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < num_cells:
        total = distances.sum()
        chance = distances / total if total > 0 else None
        chosen.append(int(generator.choice(len(points), p=chance)))
        distances = np.minimum(distances, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return np.take(points, chosen, axis=0)


def _nearest(points: Floats, centres: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Find the nearest centre of each point, and its squared distance; ties go to the first."""
    cells = np.empty(len(points), dtype=np.int64)
    distances = np.empty(len(points))
    size = max(1, _MAX_ENTRIES // centres.size)
    for start in range(0, len(points), size):
        block = points[start : start + size]
        squared = ((block[:, None] - centres[None]) ** 2).sum(axis=2)
        cells[start : start + size] = squared.argmin(axis=1)
        distances[start : start + size] = squared.min(axis=1)
    return cells, distances
