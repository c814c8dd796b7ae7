"""Watch a retriever learn without labels, and stop it when it collapses, saying so plainly.

Collapse has many faces (the thesis met most of them): a few passages answer every query; the prior
over neighbours is one-hot, so nothing is learned from the others; the query generator ignores what
it reads, so all passages seem equally good; the index no longer resembles the encoder. Each has a
number, and a bound that a healthy run does not touch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.constraints import FREE, AtLeastOne, CheckedConfig
from quoth.training.retriever.mixture import divergence, entropy, log_posterior

PER = 1000
"""Queries that passages are counted over."""

Rows = NDArray[np.int64]
Limit = Annotated[float | None, FREE]


class Health(NamedTuple):
    """A window of a run in numbers; None where there was nothing to measure."""

    step: int
    num_queries: int
    distinct: float
    """Distinct neighbours per 1000 queries."""
    largest_share: float
    """Share of the queries that have the most frequent neighbour."""
    overlap: float | None = None
    """Share of neighbours that the stale index and a fresh one had in common when last compared."""
    prior_entropy: float | None = None
    """Mean entropy of p(z|x), in nats."""
    posterior_entropy: float | None = None
    """Mean entropy of p(z|x, y), in nats."""
    divergence: float | None = None
    """Mean KL(posterior ‖ prior): how much the query generator disagrees."""
    best_over_mean: float | None = None
    """Mean of the best neighbour's log-likelihood over their mean: whether there is a signal."""
    over_random: float | None = None
    """Mean of the neighbours' log-likelihood over another query's: whether passages are used."""


@dataclass(frozen=True, slots=True)
class Bounds(CheckedConfig, title="bounds"):
    """When a run is stopped; a bound of None never stops one."""

    window: AtLeastOne = 1000
    """Queries after which the run is judged."""

    min_distinct: Limit = 40.0
    """Fewest distinct neighbours per 1000 queries; less in proportion where there are fewer than
    1000 passages, but always more than one query finds."""

    max_largest_share: Limit = 0.6
    """Largest share of queries that may have one and the same neighbour."""

    min_overlap: Limit = 0.02
    """Least overlap of the stale index with a fresh one."""

    min_prior_entropy: Limit = 1e-6
    """Least entropy of the prior, in nats."""

    max_divergence: Limit = 30.0
    """Largest divergence of posterior and prior, in nats."""

    min_best_over_mean: Limit = 1e-3
    """Least advantage of the best neighbour's log-likelihood, in nats."""

    min_over_random: Limit = 0.0
    """Least advantage of neighbours over a random passage, in nats."""


NO_BOUNDS = Bounds(1000, None, None, None, None, None, None, None)
"""Watch only."""


def distinct_per_thousand(neighbours: Rows) -> float:  # (Q, K)
    """Count distinct passages over at most 1000 queries, brought up to 1000 where there are fewer.

    >>> distinct_per_thousand(np.array([[1, 2], [1, 3]]))
    1500.0
    """
    some = neighbours[:PER]
    return float(len(np.unique(some)) * PER / len(some))


def largest_share(neighbours: Rows) -> float:  # (Q, K)
    """Return the share of queries that have the most frequent neighbour.

    >>> largest_share(np.array([[1, 2], [1, 3], [4, 5], [1, 6]]))
    0.75
    """
    counts = Counter(row for own in neighbours.tolist() for row in set(own))
    return max(counts.values()) / len(neighbours)


class Monitor:
    """Gathers what steps report, and judges it window by window.

    Nothing leaves the device before a window is full. A window is not part of a checkpoint: it
    changes no weight, and a resumed run starts a new one.
    """

    def __init__(self, bounds: Bounds, *, num_passages: int, k: int) -> None:
        self._bounds = bounds
        self._num_passages = num_passages
        self._k = k
        self._neighbours: list[Rows] = []
        self._numbers: dict[str, list[Tensor]] = {}
        self._overlap: float | None = None
        self.history: list[Health] = []

    def note_neighbours(self, neighbours: Rows) -> None:
        """Note what was retrieved for the queries of a step, (B, K)."""
        self._neighbours.append(neighbours)

    def note_mixture(self, log_prior: Tensor, log_likelihoods: Tensor | None) -> None:
        """Note prior and likelihoods of a step, (B, K) each."""
        prior = log_prior.detach().float()
        self._add("prior_entropy", entropy(prior).mean())
        if log_likelihoods is None:
            return
        likely = log_likelihoods.detach().float()
        posterior = log_posterior(prior, likely)
        self._add("posterior_entropy", entropy(posterior).mean())
        self._add("divergence", divergence(posterior, prior).mean())
        self._add("best_over_mean", (likely.max(-1).values - likely.mean(-1)).mean())

    def note_use(self, own: Tensor, other: Tensor) -> None:
        """Note log-likelihoods of queries given what was found for them, and for others; (B,)."""
        self._add("over_random", (own.detach() - other.detach()).float().mean())

    def note_overlap(self, share: float) -> None:
        """Note the overlap that a refresh measured."""
        self._overlap = share

    def judge(self, step: int) -> str:
        """Say what is wrong, once a window is full; empty where nothing is, or it is too early."""
        if sum(map(len, self._neighbours)) < self._bounds.window:
            return ""
        neighbours = np.concatenate(self._neighbours)
        means = {name: float(torch.stack(own).mean()) for name, own in self._numbers.items()}
        health = Health(
            step,
            len(neighbours),
            distinct_per_thousand(neighbours),
            largest_share(neighbours),
            self._overlap,
            **means,
        )
        self.history.append(health)
        self._neighbours, self._numbers = [], {}
        return "; ".join(find_trouble(health, self._bounds, self._num_passages, k=self._k))

    def _add(self, name: str, number: Tensor) -> None:
        self._numbers.setdefault(name, []).append(number)


def find_trouble(health: Health, bounds: Bounds, num_passages: int, *, k: int) -> list[str]:
    """Say in words which bounds are broken, and what to do about each.

    Counting passages says nothing where there are hardly more of them than are retrieved at once.
    """
    found = []
    count = health.distinct * min(health.num_queries, PER) / PER
    fewest = max((bounds.min_distinct or 0.0) * min(1.0, num_passages / PER), 1.5 * k)
    if bounds.min_distinct is not None and num_passages >= 4 * k and count < fewest:
        found.append(
            f"collapse: {min(health.num_queries, PER)} queries find only {count:.0f} different"
            f" passages of {num_passages}; warm up longer, keep a larger share of the contrastive"
            " loss, or lower the learning rate"
        )
    if num_passages >= 10 * k and _below(bounds.max_largest_share, health.largest_share):
        found.append(
            f"collapse: one passage is found for {health.largest_share:.0%} of the queries; compare"
            " by cosine, or keep a larger share of the contrastive loss"
        )
    for name, limit, remedy in _LIMITS:
        value, bound = getattr(health, name), getattr(bounds, limit)
        is_broken = _below(value, bound) if limit.startswith("min") else _below(bound, value)
        if is_broken:
            found.append(f"{_SAYS[name].format(value)} (bound {bound:g}); {remedy}")
    return found


def _below(value: float | None, bound: float | None) -> bool:
    return value is not None and bound is not None and value < bound


_SAYS = {
    "overlap": "the stale index shares only {:.1%} of its neighbours with a fresh one",
    "prior_entropy": "the prior over neighbours is one-hot (entropy {:.2g} nats), so nothing is"
    " learned from the others",
    "divergence": "retriever and query generator disagree wholly (divergence {:.1f} nats)",
    "best_over_mean": "all neighbours make the query equally likely (best over mean {:.2g} nats),"
    " so there is no signal",
    "over_random": "the query generator ignores what it reads: found passages are worth {:.2g}"
    " nats over random ones",
}
_LIMITS = (
    ("overlap", "min_overlap", "refresh more often, or lower the learning rate"),
    ("prior_entropy", "min_prior_entropy", "lower the scale of the scores"),
    ("divergence", "max_divergence", "temper the likelihood, or lower the scale of the scores"),
    ("best_over_mean", "min_best_over_mean", "train the query generator first, or explore more"),
    ("over_random", "min_over_random", "train the query generator on passages and queries first"),
)
