"""Spherical k-means: cells of directions, none of them empty.

Runs where its vectors are. A cell that lost its last vector takes over one that fits its own cell
least, so that every cell is in use at the end.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from quoth.errors import ConfigError

_SCORES_AT_ONCE = 1 << 26


def spherical_kmeans(
    vectors: Tensor,  # (N, D)
    *,
    num_cells: int,
    iterations: int,
    generator: torch.Generator,
) -> Tensor:  # (num_cells, D)
    """Find the mean vector of each cell; lengths are those of the vectors, not brought to 1."""
    if len(vectors) < num_cells:
        raise ConfigError(
            f"{len(vectors):,} vectors cannot fill {num_cells:,} cells; give more sample vectors,"
            " or lower num_centroids"
        )
    start = torch.randperm(len(vectors), generator=generator)[:num_cells]
    directions = functional.normalize(vectors.float(), dim=1)
    centres = directions[start.to(vectors.device)]
    cells = torch.zeros(len(vectors), dtype=torch.int64, device=vectors.device)
    for _ in range(iterations):
        cells, cosines = nearest(directions, centres)
        cells = fill_empty(cells, cosines, num_cells=num_cells)
        centres = functional.normalize(cell_means(directions, cells, num_cells=num_cells), dim=1)
    return cell_means(vectors.float(), cells, num_cells=num_cells)


def nearest(vectors: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:  # (N,), (N,)
    """Find the centre with the highest dot product for each vector, and that product."""
    size = max(1, _SCORES_AT_ONCE // len(centres))
    found = [(some @ centres.T).max(dim=1) for some in torch.split(vectors, size)]
    return (
        torch.cat([each.indices for each in found]),
        torch.cat([each.values for each in found]),
    )


def fill_empty(cells: Tensor, fits: Tensor, *, num_cells: int) -> Tensor:  # (N,)
    """Give each empty cell the vector that fits its own worst, where others stay behind.

    >>> fill_empty(torch.tensor([0, 0, 0]), torch.tensor([0.9, 0.2, 0.8]), num_cells=2).tolist()
    [0, 1, 0]
    """
    sizes = torch.bincount(cells, minlength=num_cells)
    empty = (sizes == 0).nonzero().flatten().tolist()
    if not empty:
        return cells
    filled, left = cells.tolist(), sizes.tolist()
    for at in torch.argsort(fits).tolist():
        if not empty:
            break
        if left[filled[at]] > 1:
            left[filled[at]] -= 1
            filled[at] = empty.pop()
    return torch.tensor(filled, device=cells.device)


def cell_means(vectors: Tensor, cells: Tensor, *, num_cells: int) -> Tensor:  # (num_cells, D)
    """Return the mean vector of each cell, 0 where a cell is empty.

    >>> cell_means(torch.tensor([[1.0], [3.0]]), torch.tensor([1, 1]), num_cells=2).tolist()
    [[0.0], [2.0]]
    """
    sums = vectors.new_zeros((num_cells, vectors.shape[1])).index_add_(0, cells, vectors)
    sizes = torch.bincount(cells, minlength=num_cells).clamp_min(1)
    return sums / sizes[:, None]


def usage_entropy(cells: Tensor, *, num_cells: int) -> float:
    """Say how evenly cells are used: 1 where all are used alike, 0 where one is used alone.

    >>> usage_entropy(torch.tensor([0, 1, 2, 3]), num_cells=4)
    1.0
    >>> usage_entropy(torch.tensor([2, 2]), num_cells=4)
    0.0
    """
    if num_cells < 2 or not len(cells):
        return 0.0
    shares = torch.bincount(cells, minlength=num_cells).double() / len(cells)
    used = shares[shares > 0]
    return abs(float((used * used.log()).sum())) / math.log(num_cells)
