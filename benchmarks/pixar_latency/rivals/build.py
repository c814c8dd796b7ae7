"""Make a rival of any method from a head, a bias and vectors of training queries."""

from __future__ import annotations

from torch import Tensor

from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.fast_vocabulary import build_fast_vocabulary
from benchmarks.pixar_latency.rivals.hire import build_low_rank, build_quantised
from benchmarks.pixar_latency.rivals.l2s import build_l2s
from benchmarks.pixar_latency.rivals.projection import build_projection
from benchmarks.pixar_latency.rivals.samples import Samples
from benchmarks.pixar_latency.rivals.svd import build_svd
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.models.pixar.shortlist.rows import Rows

_LISTED = {
    "projection": build_projection,
    "fast_vocabulary": build_fast_vocabulary,
    "l2s": build_l2s,
}


def build_rival(
    head: Tensor,  # (V, D)
    bias: Tensor,  # (V,)
    *,
    rows: Rows,
    samples: Samples,
    config: RivalConfig,
    threads: int = 1,
) -> Shortlist:
    """Build what the configuration names; its costly products are computed on the head's device."""
    if config.method in _LISTED:
        return _LISTED[config.method](head, bias, samples=samples, rows=rows, config=config)
    if config.method == "hire_low_rank":
        return build_low_rank(
            head, bias, samples=samples, rows=rows, config=config, threads=threads
        )
    build = build_svd if config.method == "svd" else build_quantised
    return build(head, bias, rows=rows, config=config, threads=threads)
