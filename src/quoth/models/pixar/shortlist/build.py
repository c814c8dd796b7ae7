"""Make a shortlist of any method from a head, a bias and vectors of training queries."""

from __future__ import annotations

import torch
from torch import Tensor

from quoth.errors import ConfigError
from quoth.models.pixar.shortlist.centroids import build_centroids
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.fast_vocabulary import build_fast_vocabulary
from quoth.models.pixar.shortlist.full import FullShortlist
from quoth.models.pixar.shortlist.hire import build_low_rank, build_quantised
from quoth.models.pixar.shortlist.interface import Samples, Shortlist
from quoth.models.pixar.shortlist.kmeans import spherical_kmeans
from quoth.models.pixar.shortlist.l2s import build_l2s
from quoth.models.pixar.shortlist.projection import build_projection
from quoth.models.pixar.shortlist.rows import Rows
from quoth.models.pixar.shortlist.svd import build_svd

_LEARNED = {
    "projection": build_projection,
    "fast_vocabulary": build_fast_vocabulary,
    "l2s": build_l2s,
}
WITHOUT_SAMPLES = ("full", "svd", "hire_quantised")


def build_shortlist(
    head: Tensor,  # (V, D)
    bias: Tensor,  # (V,)
    *,
    config: ShortlistConfig,
    samples: Samples | None = None,
    threads: int = 1,
) -> Shortlist:
    """Build what the configuration names; its costly products are computed on the head's device.

    Centroids are those of k-means: a second stage of training, then `build_centroids`, gives
    PIXAR's own.
    """
    if config.method in WITHOUT_SAMPLES:
        return _build_unlearned(head, bias, config=config, threads=threads)
    if samples is None:
        raise ConfigError(f"the method {config.method} learns from sample vectors, none were given")
    if config.method == "centroids":
        start = start_centroids(torch.from_numpy(samples.pooled).to(head.device), config)
        return build_centroids(head, bias, centroids=start, config=config, threads=threads)
    rows = Rows.store(head, bias, storage=config.storage, threads=threads)
    if config.method == "hire_low_rank":
        return build_low_rank(
            head, bias, samples=samples, rows=rows, config=config, threads=threads
        )
    return _LEARNED[config.method](head, bias, samples=samples, rows=rows, config=config)


def start_centroids(pooled: Tensor, config: ShortlistConfig) -> Tensor:  # (m, D)
    """Find where centroids start: the means of k-means' cells of pooled vectors (N, D)."""
    return spherical_kmeans(
        pooled,
        num_cells=config.num_centroids,
        iterations=config.iterations,
        generator=torch.Generator().manual_seed(config.seed),
    )


def _build_unlearned(
    head: Tensor, bias: Tensor, *, config: ShortlistConfig, threads: int
) -> Shortlist:
    rows = Rows.store(head, bias, storage=config.storage, threads=threads)
    if config.method == "full":
        return FullShortlist(rows, config)
    build = build_svd if config.method == "svd" else build_quantised
    return build(head, bias, rows=rows, config=config, threads=threads)
