"""The methods as they run on a GPU: plain torch, tensors in and tensors out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.pixar_latency.rivals.svd import gram, project
from benchmarks.pixar_latency.synthetic import World, draw_queries, list_rows
from benchmarks.pixar_latency.systems import DEPTH, Sizes, System
from quoth.models.pixar.shortlist.kmeans import nearest, spherical_kmeans
from quoth.models.pixar.shortlist.lists import top_lists

NAMES = ("full", "centroids", "svd", "hire_low_rank", "fast_vocabulary")


def torch_full(world: World) -> System:
    """Return the baseline: one product with all rows, and the best of each vector."""

    def choose(pooled: Tensor, slots: Tensor) -> Any:
        scores = (world.head @ _join(pooled, slots).T).float() + world.bias[:, None]
        return torch.topk(scores.T, DEPTH)

    return System("full_torch", choose, lambda best, _p, _s: best, lambda best: best[1].numel())


def build_systems(world: World, sizes: Sizes, names: list[str]) -> Iterator[list[System]]:
    """Return the methods one by one, built when they are asked for."""
    if "centroids" in names:
        yield [_centroids(world, sizes)]
    if "svd" in names:
        axes = torch.linalg.eigh(gram(world.head))[1].flip(1)
        first = axes[:, : world.head.shape[1] // 8].float()
        yield [_preview("svd", world, first, first)]
    if "hire_low_rank" in names:
        yield [_preview("hire_low_rank", world, *_low_rank(world, sizes))]
    if "fast_vocabulary" in names:
        yield [_fast_vocabulary(world, sizes)]


def _centroids(world: World, sizes: Sizes) -> System:
    lists = list_rows(world, length=sizes.list_length, seed=3)
    routes = world.topics.bfloat16()

    def choose(pooled: Tensor, _slots: Tensor) -> Tensor:
        chosen = torch.topk(routes @ pooled.bfloat16(), sizes.num_lists).indices
        return torch.unique(lists[chosen])

    return System("centroids", choose, _score(world))


def _low_rank(world: World, sizes: Sizes) -> tuple[Tensor, Tensor]:
    """Return what projects rows and what projects vectors, as in `rivals/hire.py`."""
    pooled, slots = draw_queries(world, sizes.num_samples, num_slots=10, seed=1)
    vectors = torch.cat((pooled, slots.flatten(0, 1)))
    values, axes = torch.linalg.eigh(gram(vectors) / len(vectors))
    roots = (values.clamp_min(0.0) + values.mean() * vectors.shape[1] / len(vectors)).sqrt()
    root, inverse = (axes * roots) @ axes.T, (axes / roots) @ axes.T
    found = torch.linalg.eigh(root @ gram(world.head) @ root)[1].flip(1)
    first = found[:, : world.head.shape[1] // 8]
    return (root @ first).float(), (inverse @ first).float()


def _preview(name: str, world: World, columns: Tensor, projection: Tensor) -> System:
    copy = project(world.head, columns)  # (V, window)
    small = projection.bfloat16()

    def choose(pooled: Tensor, slots: Tensor) -> Tensor:
        scores = copy @ (_join(pooled, slots) @ small).T + world.bias.bfloat16()[:, None]
        return torch.unique(torch.topk(scores.T, DEPTH).indices)

    return System(name, choose, _score(world))


def _fast_vocabulary(world: World, sizes: Sizes) -> System:
    pooled, slots = draw_queries(world, sizes.num_samples, num_slots=10, seed=1)
    vectors = torch.cat((pooled, slots.flatten(0, 1)))
    chance = torch.Generator().manual_seed(0)
    means = spherical_kmeans(vectors, num_cells=sizes.num_cells, iterations=5, generator=chance)
    cells = torch.nn.functional.normalize(means, dim=1)
    owners = nearest(vectors, cells)[0].cpu().numpy()
    best = top_lists(world.head, world.bias, vectors, length=DEPTH)
    lists = [
        torch.from_numpy(np.unique(best[owners == at])).to(vectors.device)
        for at in range(len(cells))
    ]

    def choose(pooled: Tensor, slots: Tensor) -> Tensor:
        own = (torch.cat((pooled[None], slots)) @ cells.T).argmax(dim=1).tolist()
        return torch.unique(torch.cat([lists[at] for at in set(own)]))

    return System("fast_vocabulary", choose, _score(world))


def _score(world: World) -> Any:
    def score(places: Tensor, pooled: Tensor, slots: Tensor) -> Tensor:
        rows = world.head.index_select(0, places)
        return (rows @ _join(pooled, slots).T).float() + world.bias[places][:, None]

    return score


def _join(pooled: Tensor, slots: Tensor) -> Tensor:
    return torch.cat((pooled[None], slots)).bfloat16()
