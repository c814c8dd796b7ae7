"""HiRE (Samaga et al. 2024): a cheap copy of the head proposes more rows than are wanted.

Only its abstract was at hand. Its low-rank copy is learned to find the highest scores; ours is the
best one in closed form for vectors like the samples: with C their second moment, the truncated
decomposition of head · √C has the least mean squared error of scores among all of that rank, where
SVD-softmax has the least error for vectors of no direction in particular. The quantised copy has a
scale per row, and 8 or 4 bits per number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.preview import PreviewShortlist
from benchmarks.pixar_latency.rivals.samples import Samples
from benchmarks.pixar_latency.rivals.svd import gram, project
from quoth.models.pixar.shortlist.rows import Rows, to_floats


def build_low_rank(
    head: Tensor,
    bias: Tensor,
    *,
    samples: Samples,
    rows: Rows,
    config: RivalConfig,
    threads: int,
) -> PreviewShortlist:
    """Keep `window` columns in which the samples' scores are kept best."""
    vectors = torch.from_numpy(samples.flat()).to(head.device)
    values, axes = torch.linalg.eigh(gram(vectors) / len(vectors))
    # the fewer the samples, the more of the mean is added to what they say of each direction
    shrunk = values.clamp_min(0.0) + values.mean() * vectors.shape[1] / len(vectors)
    roots = shrunk.sqrt()
    root, inverse = (axes * roots) @ axes.T, (axes / roots) @ axes.T  # √C and its inverse
    _values, found = torch.linalg.eigh(root @ gram(head) @ root)
    first = found.flip(1)[:, : config.window]
    copy = Rows.store(
        project(head, (root @ first).float()), bias, storage="bfloat16", threads=threads
    )
    projection = to_floats(inverse @ first)
    return PreviewShortlist(rows, config, copy=copy, projection=projection)


def build_quantised(
    head: Tensor, bias: Tensor, *, rows: Rows, config: RivalConfig, threads: int
) -> PreviewShortlist:
    """Keep a copy of 8 or 4 bits per number."""
    copy = Rows.store(head, bias, storage=config.copy, threads=threads)
    return PreviewShortlist(rows, config, copy=copy)
