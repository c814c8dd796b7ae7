"""Centroid projection: the list of a cell is what its centroid scores highest.

Cells are those of all vectors of the training queries, slots and pooled ones alike.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.pixar_latency.rivals.cells import CellShortlist
from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.samples import Samples
from quoth.models.pixar.shortlist.kmeans import spherical_kmeans
from quoth.models.pixar.shortlist.lists import Lists, top_lists
from quoth.models.pixar.shortlist.rows import Rows, to_floats


def build_projection(
    head: Tensor, bias: Tensor, *, samples: Samples, rows: Rows, config: RivalConfig
) -> CellShortlist:
    """Find cells and list the `list_length` best phrases of each centroid."""
    vectors = torch.from_numpy(samples.flat()).to(head.device)
    means = spherical_kmeans(
        vectors,
        num_cells=config.num_centroids,
        iterations=config.iterations,
        generator=torch.Generator().manual_seed(config.seed),
    )
    lists = Lists.of(list(top_lists(head, bias, means, length=config.list_length)))
    return CellShortlist(
        rows, config, cells=to_floats(functional.normalize(means, dim=1)), lists=lists
    )
