"""L2S (Chen et al. 2019), learning to screen: cells and lists are fitted to each other.

As close as its abstract allows. Two steps alternate. With cells fixed, lists are filled as a
knapsack: a phrase on the list of a cell is worth the share of the cell's vectors that rank it on
top, and costs the share of all vectors that would have to score it; the worthiest fill the budget.
With lists fixed, a linear assignment learns, by Gumbel-softmax, to send each vector to a cell whose
list misses few of its best phrases and is not long.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from benchmarks.pixar_latency.rivals.cells import CellShortlist
from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.samples import Samples
from quoth.models.pixar.shortlist.kmeans import nearest, spherical_kmeans
from quoth.models.pixar.shortlist.lists import Lists, Places, top_lists
from quoth.models.pixar.shortlist.rows import Rows, to_floats

_STEPS = 50
_LEARNING_RATE = 0.05
_SHARPNESS = 20.0  # of the assignment's start, for unit vectors
_LENGTH_COST = 0.1  # of a list as long as the budget, where missing every phrase costs 1


def build_l2s(
    head: Tensor, bias: Tensor, *, samples: Samples, rows: Rows, config: RivalConfig
) -> CellShortlist:
    """Fit an assignment and lists whose mean length over the samples is `list_length` at most."""
    vectors = functional.normalize(torch.from_numpy(samples.flat()).to(head.device), dim=1)
    generator = torch.Generator(head.device).manual_seed(config.seed)
    means = spherical_kmeans(
        vectors,
        num_cells=config.num_centroids,
        iterations=config.iterations,
        generator=torch.Generator().manual_seed(config.seed),
    )
    cells = _SHARPNESS * functional.normalize(means, dim=1)
    raw = torch.from_numpy(samples.flat()).to(head.device)
    best = top_lists(head, bias, raw, length=config.depth)
    for _ in range(max(1, config.iterations // 5)):
        lists = fill_lists(best, _owners(vectors, cells), config=config)
        costs = torch.from_numpy(list_costs(best, lists, config=config)).to(head.device)
        cells = _learn_assignment(vectors, cells, costs, generator=generator)
    lists = fill_lists(best, _owners(vectors, cells), config=config)
    return CellShortlist(rows, config, cells=to_floats(cells), lists=lists)


def fill_lists(best: Places, owners: NDArray[np.int64], *, config: RivalConfig) -> Lists:
    """Choose what cells list, from the best phrases (N, depth) of vectors and their cells (N,).

    >>> config = RivalConfig(method="l2s", num_centroids=2, list_length=1)
    >>> best = np.array([[4, 5], [4, 6], [7, 8]], dtype=np.int32)
    >>> lists = fill_lists(best, np.array([0, 0, 1]), config=config)
    >>> lists.members.tolist(), lists.lengths().tolist()  # 4 is best for both vectors of cell 0
    ([4, 7], [1, 1])
    """
    span = int(best.max(initial=0)) + 1
    keys, counts = np.unique(owners[:, None] * span + best, return_counts=True)
    cells, phrases = np.divmod(keys, span)
    sizes = np.bincount(owners, minlength=config.num_centroids)
    worth = counts / sizes[cells]
    order = np.lexsort((keys, -worth))
    spent = np.cumsum(sizes[cells[order]])
    chosen = order[spent <= config.list_length * len(owners)]
    own = [phrases[chosen[cells[chosen] == cell]] for cell in range(config.num_centroids)]
    return Lists.of([each.astype(np.int32) for each in own])


def list_costs(best: Places, lists: Lists, *, config: RivalConfig) -> NDArray[np.float32]:  # (N, m)
    """Say what it would cost each vector to use each list: phrases missed, and length."""
    listed = np.zeros(int(best.max(initial=0)) + 1, dtype=bool)
    costs = np.empty((len(best), len(lists)), dtype=np.float32)
    for at, length in enumerate(lists.lengths()):
        members = lists.members[lists.bounds[at] : lists.bounds[at + 1]]
        listed[members] = True
        missed = 1.0 - listed[best].mean(axis=1)
        costs[:, at] = missed + _LENGTH_COST * length / config.list_length
        listed[members] = False
    return costs


def _owners(vectors: Tensor, cells: Tensor) -> NDArray[np.int64]:
    owners: NDArray[np.int64] = nearest(vectors, cells)[0].cpu().numpy()
    return owners


def _learn_assignment(
    vectors: Tensor, cells: Tensor, costs: Tensor, *, generator: torch.Generator
) -> Tensor:
    """Lower the mean cost of the cell drawn for each vector."""
    weights = cells.clone().requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=_LEARNING_RATE)
    with torch.enable_grad():
        for _ in range(_STEPS):
            logits = vectors @ weights.T
            noise = torch.empty_like(logits).exponential_(generator=generator).log()
            loss = ((logits - noise).softmax(dim=1) * costs).sum(dim=1).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return weights.detach()
