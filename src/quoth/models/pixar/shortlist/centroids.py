"""PIXAR's shortlist: the pooled vector chooses k of m centroids, whose lists serve every slot.

The list of a centroid c is the r phrases with the highest c · w + bias. Rows are stored in the
order of the centroids that list them first, near centroids next to each other: those that a query
needs then lie in few stretches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.interface import Floats, Places, Shortlist
from quoth.models.pixar.shortlist.kmeans import nearest, spherical_kmeans
from quoth.models.pixar.shortlist.lists import Lists, top_lists
from quoth.models.pixar.shortlist.rows import Rows, to_floats

_GROUPING_ROUNDS = 10


class CentroidShortlist(Shortlist):
    """Joins the lists of the centroids that the pooled vector chooses; slots have no say."""

    def __init__(
        self,
        rows: Rows,
        config: ShortlistConfig,
        *,
        centroids: Floats,  # (m, D)
        lists: Lists,
        threads: int = 1,
    ) -> None:
        super().__init__(rows, config)
        self._centroids = centroids
        self._lists = lists
        routes = routing_vectors(torch.from_numpy(centroids), assign=config.assign)
        nothing = torch.zeros(len(routes))
        self._routes = Rows.store(routes, nothing, storage="bfloat16", threads=threads)
        self._everywhere = np.arange(len(routes), dtype=np.int32)

    def choose(self, pooled: Floats, slots: Floats) -> Places:
        """Join the lists of the nearest centroids."""
        length = self.config.list_length
        chosen = self.nearest_centroids(pooled).tolist()
        return self._lists.join(chosen, num_rows=len(self.rows), length=length)

    def nearest_centroids(self, pooled: Floats) -> NDArray[np.int64]:
        """Choose centroids for a pooled vector (D,), in no particular order."""
        scores = self._routes.score(self._everywhere, pooled[None])[1][0]
        k = min(self.config.num_lists, len(scores))
        return np.argpartition(-scores, k - 1)[:k]

    def own_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the centroids and their lists."""
        return {"centroids": self._centroids, **self._lists.arrays()}


def start_centroids(pooled: Tensor, config: ShortlistConfig) -> Tensor:  # (m, D)
    """Find where centroids start: the means of k-means' cells of pooled vectors (N, D)."""
    return spherical_kmeans(
        pooled,
        num_cells=config.num_centroids,
        iterations=config.iterations,
        generator=torch.Generator().manual_seed(config.seed),
    )


def build_centroids(
    head: Tensor,
    bias: Tensor,
    *,
    centroids: Tensor,  # (m, D)
    config: ShortlistConfig,
    threads: int = 1,
) -> CentroidShortlist:
    """List the best phrases of each centroid and store the rows in an order that suits them."""
    best = top_lists(head, bias, centroids, length=config.list_length)
    return join_lists(head, bias, best=best, centroids=centroids, config=config, threads=threads)


def join_lists(
    head: Tensor,
    bias: Tensor,
    *,
    best: Places,  # (m, r) phrases
    centroids: Tensor,  # (m, D)
    config: ShortlistConfig,
    threads: int = 1,
) -> CentroidShortlist:
    """Store the rows in an order that suits lists which are known."""
    order = group_rows(best, centroids, num_rows=len(head), config=config)
    rows = Rows.store(head, bias, storage=config.storage, order=order, threads=threads)
    lists = Lists.of(list(best)).follow(order)
    return CentroidShortlist(
        rows, config, centroids=to_floats(centroids), lists=lists, threads=threads
    )


def routing_vectors(centroids: Tensor, *, assign: str) -> Tensor:  # (m, D)
    """Return the vectors whose product with x₀ decides; cosines need no length of x₀."""
    return functional.normalize(centroids, dim=1) if assign == "cosine" else centroids


def group_rows(
    best: Places, centroids: Tensor, *, num_rows: int, config: ShortlistConfig
) -> Places:  # (V,)
    """Put phrases next to those they are listed with; those on no list come last."""
    homes = _find_homes(best, num_rows)
    count = len(centroids)
    groups = spherical_kmeans(
        centroids,
        num_cells=max(1, math.isqrt(count)),
        iterations=_GROUPING_ROUNDS,
        generator=torch.Generator().manual_seed(config.seed),
    )
    own = nearest(centroids.float(), functional.normalize(groups, dim=1))[0].cpu().numpy()
    seats = np.empty(count + 1, dtype=np.int32)
    seats[np.argsort(own, kind="stable")] = np.arange(count, dtype=np.int32)
    seats[count] = count
    return np.argsort(seats[homes], kind="stable").astype(np.int32)


@njit(cache=True, nogil=True)
def _find_homes(best: Places, num_rows: int) -> Places:
    """Find the list on which each phrase stands highest, the number of lists where on none."""
    count, length = best.shape
    homes = np.full(num_rows, count, dtype=np.int32)
    for rank in range(length):
        for at in range(count):
            if homes[best[at, rank]] == count:
                homes[best[at, rank]] = at
    return homes
