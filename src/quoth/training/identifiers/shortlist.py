"""PIXAR's second stage: centroids learn to list what the identifiers of their queries hold.

The encoder and the head stay as they are. A query belongs to the centroid c that its pooled vector
x₀ chooses, and the loss of its identifier d is −Σ_t log softmax(c · head + bias)[d_t]. No gradient
reaches the choice. Since a query counts through its centroid alone, identifiers are summed up by
centroid: one step over all centroids is one over all queries. Queries choose anew every round;
centroids that lost all of theirs start again at a query that fits its own centroid badly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from quoth.constraints import AtLeastOne, CheckedConfig, Positive
from quoth.models.pixar.shortlist.centroids import routing_vectors
from quoth.models.pixar.shortlist.config import Assignment
from quoth.models.pixar.shortlist.kmeans import fill_empty, nearest, usage_entropy
from quoth.training.identifiers.large_softmax import CHUNK, large_softmax

PADDING = -1
"""Fills up identifiers that are shorter than others; no phrase."""


@dataclass(frozen=True, slots=True)
class PixarShortlistRecipe(CheckedConfig, title="pixar shortlist"):
    """Settings that train centroids."""

    rounds: AtLeastOne = 5
    """How often queries choose their centroids anew."""

    steps: AtLeastOne = 20
    """Steps of the optimiser in each round."""

    learning_rate: Positive = 0.05
    """Learning rate, as a share of the usual size of a centroid's numbers."""

    assign: Assignment = "cosine"
    """How the pooled vector chooses; as in the shortlist that is built afterwards."""

    chunk: AtLeastOne = CHUNK
    """Rows of the head whose logits are held at once."""


@dataclass(frozen=True, slots=True)
class CentroidRound:
    """Centroids after a round, and what was seen on the way."""

    centroids: Tensor  # (m, D)
    losses: tuple[float, ...]
    """Mean −log p of a phrase before each step."""

    usage: float
    """How evenly queries are spread over the centroids, 0 to 1."""

    num_revived: int
    """Centroids that had lost their last query when the round began."""

    held_out_loss: float = 0.0
    """Mean −log p of a phrase that held-out queries want; 0 where none are held out."""


def train_centroids(
    head: Tensor,  # (V, D)
    bias: Tensor,  # (V,)
    *,
    pooled: Tensor,  # (N, D)
    targets: Tensor,  # (N, L) phrases, filled up with `PADDING`
    start: Tensor,  # (m, D)
    recipe: PixarShortlistRecipe,
    held_out: tuple[Tensor, Tensor] | None = None,  # as pooled and targets
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[CentroidRound]:
    """Return the centroids after each round, and what held-out queries lose with them.

    Progress is told after each step: the steps done, and those of all rounds.
    """
    steps = itertools.count(1)

    def tell() -> None:
        if progress is not None:
            progress(next(steps), recipe.rounds * recipe.steps)

    centroids = start.detach().float().clone()
    for _ in range(recipe.rounds):
        cells, num_revived, centroids = _choose(pooled.float(), centroids, assign=recipe.assign)
        gold = _count_gold(cells, targets)
        centroids, losses = _fit(
            head, bias, centroids=centroids, gold=gold, recipe=recipe, tell=tell
        )
        usage = usage_entropy(cells, num_cells=len(centroids))
        lost = 0.0
        if held_out is not None and len(held_out[0]):
            lost = _judge(head, bias, centroids=centroids, held_out=held_out, recipe=recipe)
        yield CentroidRound(centroids, tuple(losses), usage, num_revived, lost)


@torch.no_grad()
def _judge(
    head: Tensor,
    bias: Tensor,
    *,
    centroids: Tensor,
    held_out: tuple[Tensor, Tensor],
    recipe: PixarShortlistRecipe,
) -> float:
    """Return the loss of queries that the centroids were not fitted to."""
    pooled, targets = held_out
    cells, _ = nearest(pooled.float(), routing_vectors(centroids, assign=recipe.assign))
    gold = _count_gold(cells, targets)
    return float(_loss(head, bias, centroids=centroids, gold=gold, recipe=recipe))


def _choose(
    pooled: Tensor, centroids: Tensor, *, assign: str
) -> tuple[Tensor, int, Tensor]:  # (N,), the number of revived centroids, (m, D)
    routes = routing_vectors(centroids, assign=assign)
    cells, scores = nearest(pooled, routes)
    fits = scores / (pooled.norm(dim=1) * routes.norm(dim=1)[cells]).clamp_min(1e-12)
    filled = fill_empty(cells, fits, num_cells=len(centroids))
    moved = (filled != cells).nonzero().flatten()
    revived = centroids.clone()
    revived[filled[moved]] = pooled[moved]
    return filled, len(moved), revived


@dataclass(frozen=True, slots=True)
class _Gold:
    """How often the queries of a centroid want a phrase."""

    cells: Tensor  # (pairs,)
    phrases: Tensor  # (pairs,)
    shares: Tensor  # (pairs,), adding up to 1


def _count_gold(cells: Tensor, targets: Tensor) -> _Gold:
    real = targets != PADDING
    owners = cells[:, None].expand_as(targets)[real]
    pairs, counts = torch.unique(torch.stack((owners, targets[real])), dim=1, return_counts=True)
    return _Gold(pairs[0], pairs[1], counts / counts.sum().clamp_min(1))


def _fit(
    head: Tensor,
    bias: Tensor,
    *,
    centroids: Tensor,
    gold: _Gold,
    recipe: PixarShortlistRecipe,
    tell: Callable[[], None],
) -> tuple[Tensor, list[float]]:
    usual = float(centroids.square().mean().sqrt())
    weights = centroids.clone().requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=recipe.learning_rate * usual)
    losses = []
    for _ in range(recipe.steps):
        loss = _loss(head, bias, centroids=weights, gold=gold, recipe=recipe)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
        tell()
    return weights.detach(), losses


def _loss(
    head: Tensor, bias: Tensor, *, centroids: Tensor, gold: _Gold, recipe: PixarShortlistRecipe
) -> Tensor:
    terms = large_softmax(
        centroids,
        head,
        targets=gold.phrases,
        target_rows=gold.cells,
        bias=bias,
        chunk=recipe.chunk,
        dtype=head.dtype,
    )
    return (gold.shares * (terms.log_normalisers[gold.cells] - terms.logits)).sum()
