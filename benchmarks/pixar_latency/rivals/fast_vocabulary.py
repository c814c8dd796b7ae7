"""Fast Vocabulary: the list of a cell is what its training vectors scored highest.

The digest of Chen et al. 2018 and Amer et al. 2022, whose text was not at hand: disjoint cells of
vectors, and for each the phrases that full softmax ranked on top for one of its training vectors.
Lists are as long as they come, hence the method's long tail of latencies.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.pixar_latency.rivals.cells import CellShortlist
from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.samples import Samples
from quoth.models.pixar.shortlist.kmeans import nearest, spherical_kmeans
from quoth.models.pixar.shortlist.lists import Lists, top_lists
from quoth.models.pixar.shortlist.rows import Rows, to_floats


def build_fast_vocabulary(
    head: Tensor, bias: Tensor, *, samples: Samples, rows: Rows, config: RivalConfig
) -> CellShortlist:
    """Find cells and list the `depth` best phrases of each of their vectors."""
    vectors = torch.from_numpy(samples.flat()).to(head.device)
    means = spherical_kmeans(
        vectors,
        num_cells=config.num_centroids,
        iterations=config.iterations,
        generator=torch.Generator().manual_seed(config.seed),
    )
    cells = functional.normalize(means, dim=1)
    owners = nearest(vectors, cells)[0].cpu().numpy()
    best = top_lists(head, bias, vectors, length=config.depth)
    lists = [np.unique(best[owners == cell]) for cell in range(config.num_centroids)]
    return CellShortlist(rows, config, cells=to_floats(cells), lists=Lists.of(lists))
