"""MAUVE: the curve by its definition, cells by brute force, and what the score must do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.generation.mauve import MauveConfig, divergence_area, mauve, quantise
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.stats import entropy

from quoth.errors import ConfigError, EvaluationError


def _blobs(seed: int, *, shift: float, count: int = 60) -> np.ndarray:
    generator = np.random.default_rng(seed)
    centres = np.eye(8)[generator.integers(4, size=count)]
    return centres + 0.2 * generator.normal(size=(count, 8)) + shift * np.eye(8)[7]


class TestArea:
    @given(
        weights=st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6
        ).filter(lambda rows: all(sum(column) for column in zip(*rows, strict=True))),
        scaling=st.sampled_from([1.0, 2.0, 5.0]),
    )
    def test_follows_the_definition(self, weights: list[tuple[int, int]], scaling: float) -> None:
        p, q = (np.array(column) / sum(column) for column in zip(*weights, strict=True))
        points = [(1.0, 0.0)]
        for weight in np.linspace(1e-6, 1 - 1e-6, 25):
            mixture = weight * p + (1 - weight) * q
            points.append(
                (np.exp(-scaling * entropy(q, mixture)), np.exp(-scaling * entropy(p, mixture)))
            )
        x, y = np.array([*points, (0.0, 1.0)])[::-1].T
        expected = trapezoid(y, x)
        assert divergence_area(p, q, scaling=scaling) == pytest.approx(expected, abs=1e-9)

    def test_is_symmetric_and_1_for_equals(self) -> None:
        p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.1, 0.8])
        one, other = (divergence_area(*pair, scaling=2.0) for pair in ((p, q), (q, p)))
        assert one == pytest.approx(other)
        assert divergence_area(p, p, scaling=2.0) == pytest.approx(1.0)


class TestCells:
    def test_the_tightest_of_all_partitions(self) -> None:
        points = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [1.0, 0.05], [0.05, 1]])
        cells, num_cells = quantise(points[:3], points[3:], MauveConfig(num_cells=2, variance=1.0))
        unit = points / np.linalg.norm(points, axis=1, keepdims=True)

        def spread(labels: tuple[int, ...]) -> float:
            own = [unit[np.array(labels) == cell] for cell in set(labels)]
            return sum(float(((each - each.mean(axis=0)) ** 2).sum()) for each in own)

        best = min(product((0, 1), repeat=6), key=spread)
        assert num_cells == 2
        assert len({(cell, other) for cell, other in zip(cells, best, strict=True)}) == 2

    def test_a_tenth_of_the_smaller_side(self) -> None:
        assert quantise(_blobs(0, shift=0, count=50), _blobs(1, shift=0), MauveConfig())[1] == 5

    def test_texts_that_are_all_alike(self) -> None:
        same = np.ones((20, 3))
        assert mauve(same, same, MauveConfig()) == pytest.approx(1.0)


class TestScore:
    @settings(max_examples=5)
    @given(seed=st.integers(0, 99))
    def test_falls_as_texts_move_away(self, seed: int) -> None:
        human, config = _blobs(seed, shift=0.0), MauveConfig(seed=seed)
        near, far = (mauve(human, _blobs(seed + 1, shift=by), config) for by in (0.0, 3.0))
        assert 0.0 < far < near <= 1.0

    def test_the_seed_decides_and_length_does_not_matter(self) -> None:
        human, written = _blobs(0, shift=0.0), _blobs(1, shift=0.4)
        score = mauve(human, written, MauveConfig())
        assert mauve(human, written, MauveConfig()) == score
        assert mauve(7 * human, 3 * written, MauveConfig()) == pytest.approx(score)

    @pytest.mark.parametrize(
        ("human", "written"),
        [((3, 2), (3, 4)), ((1, 2), (3, 2)), ((6,), (6,))],
    )
    def test_shapes_that_do_not_fit(self, human: tuple[int], written: tuple[int]) -> None:
        with pytest.raises(EvaluationError, match="expected \\(N, D\\)"):
            mauve(np.zeros(human), np.zeros(written), MauveConfig())

    def test_numbers_that_are_not_finite(self) -> None:
        broken = np.full((4, 2), np.nan)
        with pytest.raises(EvaluationError, match="not finite"):
            mauve(broken, np.zeros((4, 2)), MauveConfig())


def test_all_problems_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        MauveConfig(scaling=0, num_cells=1, variance=2, num_points=1, restarts=0, max_rounds=0)
    for name in ("scaling", "num_cells", "variance", "num_points", "restarts", "max_rounds"):
        assert f"{name} is" in str(caught.value)
