"""Monitors: each sign of collapse is seen and explained, and a healthy window is left alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from quoth.training.retriever.monitors import NO_BOUNDS, Bounds, Health, Monitor, find_trouble

HEALTHY = Health(100, 1000, 700.0, 0.05, 0.8, 1.2, 0.5, 0.6, 1.5, 3.0)


def trouble(**changed: float) -> list[str]:
    return find_trouble(HEALTHY._replace(**changed), Bounds(), 5000, k=8)


def test_a_healthy_window_is_left_alone() -> None:
    assert trouble() == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("distinct", 9.0, "1000 queries find only 9 different passages of 5000"),
        ("largest_share", 0.97, "one passage is found for 97% of the queries"),
        ("overlap", 0.01, "stale index shares only 1.0%"),
        ("prior_entropy", 0.0, "prior over neighbours is one-hot"),
        ("divergence", 80.0, "disagree wholly"),
        ("best_over_mean", 0.0, "equally likely"),
        ("over_random", -0.1, "ignores what it reads"),
    ],
)
def test_every_sign_is_explained_with_a_remedy(name: str, value: float, says: str) -> None:
    (found,) = trouble(**{name: value})
    assert says in found and "; " in found
    assert find_trouble(HEALTHY._replace(**{name: value}), NO_BOUNDS, 5000, k=8) == []


def test_few_passages_are_no_collapse() -> None:
    small = HEALTHY._replace(distinct=20.0, largest_share=0.7)
    assert find_trouble(small, Bounds(), 20, k=8) == []


def test_a_constant_retriever_is_seen_whatever_the_window() -> None:
    for window, num_passages in ((20, 40), (1000, 5000)):
        monitor = Monitor(Bounds(window=window), num_passages=num_passages, k=4)
        monitor.note_neighbours(np.tile(np.arange(4), (window, 1)))
        assert "find only 4 different passages" in monitor.judge(7)
        assert monitor.history[0].largest_share == 1.0


def test_a_window_is_judged_when_it_is_full_and_then_begins_anew() -> None:
    monitor = Monitor(Bounds(window=20), num_passages=100, k=2)
    chance = np.random.default_rng(0)
    log_prior = torch.tensor([[0.5, 0.5]]).log()
    for step in range(4):
        monitor.note_neighbours(chance.integers(0, 100, (10, 2)))
        monitor.note_mixture(log_prior, torch.tensor([[-1.0, -3.0]]))
        monitor.note_use(torch.tensor([-1.0]), torch.tensor([-4.0]))
        assert monitor.judge(step) == ""
    first, second = monitor.history
    assert (first.step, second.step, first.num_queries) == (1, 3, 20)
    assert first.prior_entropy == pytest.approx(np.log(2), rel=1e-5)
    posterior = torch.tensor([0.0, -2.0]).softmax(0)
    expected = float((posterior * (posterior / 0.5).log()).sum())
    assert first.divergence == pytest.approx(expected, rel=1e-5)
    assert first.best_over_mean == pytest.approx(1.0) and first.over_random == pytest.approx(3.0)
