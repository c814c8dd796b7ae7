"""PIXAR's second stage: the loss by hand, and what it is for, recall of gold phrases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from quoth.errors import ConfigError
from quoth.models.pixar.shortlist.centroids import (
    build_centroids,
    routing_vectors,
    start_centroids,
)
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.training.identifiers.shortlist import (
    PADDING,
    PixarShortlistRecipe,
    train_centroids,
)

NUM_PHRASES, WIDTH, NUM_TOPICS = 400, 16, 8
CONFIG = ShortlistConfig(
    num_centroids=NUM_TOPICS, list_length=30, num_lists=1, iterations=10, storage="float32"
)


class _World:
    """Queries of eight topics that want phrases which their own vectors do not score highest."""

    def __init__(self) -> None:
        chance = torch.Generator().manual_seed(0)
        self.head = torch.randn(NUM_PHRASES, WIDTH, generator=chance)
        self.bias = torch.zeros(NUM_PHRASES)
        self._topics = 3 * torch.randn(NUM_TOPICS, WIDTH, generator=chance)
        hidden = self._topics + 3 * torch.randn(NUM_TOPICS, WIDTH, generator=chance)
        self._wanted = (hidden @ self.head.T).topk(25).indices  # (topics, 25)

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor]:
        """Draw pooled vectors and identifiers of one to four phrases."""
        chance = torch.Generator().manual_seed(seed)
        topics = torch.randint(0, NUM_TOPICS, (count,), generator=chance)
        pooled = self._topics[topics] + torch.randn(count, WIDTH, generator=chance)
        chosen = torch.randint(0, 25, (count, 4), generator=chance)
        targets = self._wanted[topics].gather(1, chosen)
        lengths = torch.randint(1, 5, (count, 1), generator=chance)
        return pooled, targets.masked_fill(torch.arange(4) >= lengths, PADDING)


WORLD = _World()


def _recall(centroids: Tensor) -> tuple[float, float]:
    """Measure how many gold phrases shortlists hold, and how many identifiers they hold whole."""
    shortlist = build_centroids(WORLD.head, WORLD.bias, centroids=centroids, config=CONFIG)
    pooled, targets = WORLD.draw(200, seed=2)  # not those of training
    vectors = pooled.numpy()
    nothing = np.zeros((0, WIDTH), dtype=np.float32)
    lists = [shortlist.shortlist(vector, nothing).phrase_ids for vector in vectors]
    inside = np.stack([np.isin(row, own) for row, own in zip(targets, lists, strict=True)])
    is_phrase = targets.numpy() != PADDING
    return float(inside[is_phrase].mean()), float((inside | ~is_phrase).all(axis=1).mean())


def test_training_raises_the_recall_of_gold_phrases() -> None:
    pooled, targets = WORLD.draw(600, seed=1)
    start = start_centroids(pooled, CONFIG)
    recipe = PixarShortlistRecipe(rounds=4, steps=20, learning_rate=0.1)
    rounds = list(
        train_centroids(
            WORLD.head, WORLD.bias, pooled=pooled, targets=targets, start=start, recipe=recipe
        )
    )
    before, after = _recall(start), _recall(rounds[-1].centroids)
    assert len(rounds) == 4
    assert after[0] > before[0] + 0.2  # phrases
    assert after[1] > before[1] + 0.2  # identifiers
    assert rounds[-1].losses[-1] < rounds[0].losses[0]
    assert rounds[-1].usage > 0.8


@pytest.mark.parametrize("assign", ["cosine", "dot"])
def test_the_loss_is_the_mean_over_phrases_of_the_chosen_centroids(assign: str) -> None:
    pooled, targets = WORLD.draw(40, seed=3)
    start = 0.5 * pooled[:5]
    recipe = PixarShortlistRecipe(rounds=1, steps=1, assign=assign, chunk=64)
    [only] = train_centroids(
        WORLD.head, WORLD.bias, pooled=pooled, targets=targets, start=start, recipe=recipe
    )
    chosen = (pooled @ routing_vectors(start, assign=assign).T).argmax(dim=1)
    logits = start[chosen] @ WORLD.head.T + WORLD.bias
    expected = functional.cross_entropy(
        logits[:, :, None].expand(-1, -1, 4), targets, ignore_index=PADDING
    )
    assert only.num_revived == 0
    assert only.losses[0] == pytest.approx(float(expected), rel=1e-5)


def test_held_out_queries_judge_the_centroids_of_a_round() -> None:
    pooled, targets = WORLD.draw(40, seed=3)
    held_out = WORLD.draw(30, seed=6)
    recipe = PixarShortlistRecipe(rounds=2, steps=1)
    *_, last = train_centroids(
        WORLD.head,
        WORLD.bias,
        pooled=pooled,
        targets=targets,
        start=0.5 * pooled[:5],
        recipe=recipe,
        held_out=held_out,
    )
    chosen = (held_out[0] @ routing_vectors(last.centroids, assign="cosine").T).argmax(dim=1)
    logits = last.centroids[chosen] @ WORLD.head.T + WORLD.bias
    expected = functional.cross_entropy(
        logits[:, :, None].expand(-1, -1, 4), held_out[1], ignore_index=PADDING
    )
    assert last.held_out_loss == pytest.approx(float(expected), rel=1e-5)


def test_centroids_without_queries_start_again_at_one() -> None:
    targets = WORLD.draw(50, seed=4)[1]
    pooled = 10.0 + torch.randn(50, WIDTH, generator=torch.Generator().manual_seed(5))
    start = torch.cat((pooled[:3], torch.full((1, WIDTH), -10.0)))  # the last points away
    recipe = PixarShortlistRecipe(rounds=2, steps=1, learning_rate=1e-9)
    first, second = train_centroids(
        WORLD.head, WORLD.bias, pooled=pooled, targets=targets, start=start, recipe=recipe
    )
    assert first.num_revived == 1
    assert float((first.centroids[3] - pooled).norm(dim=1).min()) < 1e-3
    assert second.num_revived == 0


def test_all_problems_of_a_recipe_are_reported() -> None:
    with pytest.raises(ConfigError) as found:
        PixarShortlistRecipe(rounds=0, learning_rate=0.0, assign="best")
    for part in ("rounds is 0", "learning_rate is 0.0", "assign is 'best'"):
        assert part in str(found.value)
