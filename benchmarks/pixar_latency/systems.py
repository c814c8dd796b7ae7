"""The methods as they run on processors: the package's, its rivals, and plain torch beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.pixar_latency.rivals.build import build_rival
from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.samples import Samples
from benchmarks.pixar_latency.synthetic import World, draw_queries, list_rows
from quoth.models.pixar.shortlist.centroids import join_lists
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.full import FullShortlist
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.models.pixar.shortlist.rows import Rows, to_floats

DEPTH = 100
"""Phrases that full softmax and the previews keep of each vector."""

_SLOW = ("svd", "hire_low_rank", "hire_quantised")


@dataclass(frozen=True, slots=True)
class System:
    """One method: what chooses rows for a query, and what scores them."""

    name: str
    choose: Callable[[Any, Any], Any]
    score: Callable[[Any, Any, Any], Any]
    count: Callable[[Any], int] = len
    is_slow: bool = False
    """Reads the whole head: fewer queries are timed."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The paper's m, r and k, and what the rivals learn from."""

    num_centroids: int
    list_length: int
    num_lists: int
    num_samples: int
    num_cells: int
    threads: int


def torch_full(world: World) -> System:
    """Return the baseline: one bf16 product with all rows, and the best of each vector."""

    def choose(pooled: Any, slots: Any) -> Any:
        vectors = torch.from_numpy(np.concatenate((pooled[None], slots))).bfloat16()
        scores = (world.head @ vectors.T).float() + world.bias[:, None]
        return torch.topk(scores.T, DEPTH)

    return System("full_torch", choose, lambda best, _p, _s: best, lambda best: best[1].numel())


def build_systems(world: World, sizes: Sizes, names: list[str]) -> Iterator[list[System]]:
    """Return the methods in groups that fit into memory together, built when they are asked for."""
    if "centroids" in names:
        yield _centroid_systems(world, sizes)
    for name in names:
        if name != "centroids":
            yield [_rival(world, sizes, name)]


def _centroid_systems(world: World, sizes: Sizes) -> list[System]:
    """Build PIXAR's shortlist, and its worst case: lists without overlap, rows everywhere."""
    config = ShortlistConfig(
        num_centroids=sizes.num_centroids,
        list_length=sizes.list_length,
        num_lists=sizes.num_lists,
    )
    shortlist = join_lists(
        world.head,
        world.bias,
        best=list_rows(world, length=sizes.list_length, seed=3).numpy(),
        centroids=world.topics,
        config=config,
        threads=sizes.threads,
    )
    chance = np.random.default_rng(0)
    wanted = min(sizes.num_lists * sizes.list_length, len(world.head))

    def choose_worst(pooled: Any, slots: Any) -> Any:
        shortlist.choose(pooled, slots)  # its cost counts
        return scattered[int(chance.integers(0, len(scattered)))]

    scattered = [
        np.sort(chance.choice(len(world.head), wanted, replace=False)).astype(np.int32)
        for _ in range(8)
    ]
    return [
        _system("centroids", shortlist),
        System("centroids_worst", choose_worst, _scorer(shortlist)),
    ]


def _rival(world: World, sizes: Sizes, name: str) -> System:
    head, bias, threads = world.head, world.bias, sizes.threads
    codes = head.view(torch.int16).numpy().view(np.uint16)  # the head itself, not a copy
    labels = np.stack((np.ones(len(bias), dtype=np.float32), to_floats(bias)), axis=1)
    rows = Rows(codes, labels, storage="bfloat16", width=head.shape[1], threads=threads)
    if name == "full":
        config = ShortlistConfig(method=name, storage="bfloat16", depth=DEPTH)
        return _system(name, FullShortlist(rows, config), is_slow=True)
    config = RivalConfig(
        method=name,
        storage="bfloat16",
        num_centroids=sizes.num_cells,
        list_length=sizes.list_length if name == "projection" else 10 * DEPTH,
        depth=DEPTH,
        window=head.shape[1] // 8,
        iterations=5,
    )
    pooled, slots = draw_queries(world, sizes.num_samples, num_slots=10, seed=1)
    samples = Samples(to_floats(pooled), to_floats(slots))
    found = build_rival(head, bias, rows=rows, samples=samples, config=config, threads=threads)
    return _system(name, found, is_slow=name in _SLOW)


def _system(name: str, shortlist: Shortlist, *, is_slow: bool = False) -> System:
    return System(name, shortlist.choose, _scorer(shortlist), is_slow=is_slow)


def _scorer(shortlist: Shortlist) -> Callable[[Any, Any, Any], Any]:
    return lambda places, pooled, slots: shortlist.score(places, pooled, slots=slots)
