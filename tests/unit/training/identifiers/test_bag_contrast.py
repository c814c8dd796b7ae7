"""Identifiers compete as bags: the loss is that of the formula, and own passages do not compete."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from quoth.training.identifiers import bag_contrast as module
from quoth.training.identifiers.bag_contrast import SCALE, Bags, bag_contrast
from quoth.training.split_table import TableSplit
from quoth.vocabulary.phrases.rarity import rarities

WIDTH, PHRASES = 5, 7


def draw(rows: int, seed: int) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(rows, WIDTH, generator=chance).requires_grad_()


def slow_loss(pooled: Tensor, rows: Tensor, ids: Tensor, bags: Bags) -> Tensor:
    def vector(own: Tensor) -> Tensor:
        known = [int(each) for each in own if each >= 0]
        parts = [bags.weights[at] * rows[at] / rows[at].norm() for at in known]
        return torch.stack(parts).sum(0)

    found = {
        (query, place): vector(own)
        for query, drawn in enumerate(ids)
        for place, own in enumerate(drawn)
        if (own >= 0).any()
    }
    losses = []
    for (query, _place), right in found.items():
        others = [
            each for (at, _), each in found.items() if bags.passages[at] != bags.passages[query]
        ]
        cosines = torch.stack(
            [torch.cosine_similarity(pooled[query], each, dim=0) for each in (right, *others)]
        )
        losses.append(-(SCALE * cosines).log_softmax(0)[0])
    return torch.stack(losses).mean()


def test_the_loss_and_its_gradients_are_those_of_the_formula() -> None:
    pooled, rows = draw(3, 1), draw(PHRASES, 2)
    ids = torch.tensor([[[0, 1], [2, -1]], [[3, 4], [-1, -1]], [[5, 0], [6, 6]]])
    bags = Bags(torch.linspace(1.0, 2.0, PHRASES), torch.tensor([0, 1, 0]))
    found = bag_contrast(pooled, rows, phrase_ids=ids, bags=bags)
    expected = slow_loss(pooled, rows, ids, bags)
    assert torch.allclose(found, expected, atol=1e-5)
    for own, other in zip(
        torch.autograd.grad(found, (pooled, rows)),
        torch.autograd.grad(expected, (pooled, rows)),
        strict=True,
    ):
        assert torch.allclose(own, other, atol=1e-5)


def test_a_batch_of_one_passage_has_nothing_to_compete_with() -> None:
    ids = torch.tensor([[[0, 1]], [[2, 3]]])
    bags = Bags(torch.ones(PHRASES), torch.tensor([4, 4]))
    assert bag_contrast(draw(2, 1), draw(PHRASES, 2), phrase_ids=ids, bags=bags).item() == 0.0


def test_no_identifiers_cost_nothing() -> None:
    none = torch.full((2, 1, 3), -1)
    bags = Bags(torch.ones(PHRASES), torch.tensor([0, 1]))
    assert bag_contrast(draw(2, 1), draw(PHRASES, 2), phrase_ids=none, bags=bags).item() == 0.0


def test_rare_phrases_weigh_more() -> None:
    weights = rarities(np.array([90, 9, 0]))
    assert np.all(np.diff(weights) > 0)
    assert math.isclose(weights[0], math.log(102 / 91), rel_tol=1e-6)


def test_processes_that_split_the_head_lose_and_move_as_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, pooled = draw(PHRASES, 0), draw(4, 1)
    ids = torch.randint(-1, PHRASES, (4, 2, 3), generator=torch.Generator().manual_seed(2))
    bags = Bags(torch.linspace(0.5, 1.5, PHRASES), torch.arange(4))

    def lose(own: Tensor, split: TableSplit | None) -> tuple[Tensor, Tensor]:
        loss = bag_contrast(pooled, own, phrase_ids=ids, bags=bags, split=split)
        return loss.detach(), torch.autograd.grad(loss, own)[0]

    expected, gradient = lose(rows, None)
    splits = [TableSplit(PHRASES, each, 3) for each in range(3)]
    parts = [split.own(rows.detach()).requires_grad_() for split in splits]
    sums: list[Tensor] = []
    monkeypatch.setattr(module, "add_up", lambda own: sums.append(own.detach()) or own)
    for part, split in zip(parts, splits, strict=True):
        lose(part, split)
    for part, split, own in zip(parts, splits, sums, strict=True):
        monkeypatch.setattr(module, "add_up", (sum(sums) - own).__add__)
        loss, moved = lose(part, split)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(moved, gradient[split.rows])
