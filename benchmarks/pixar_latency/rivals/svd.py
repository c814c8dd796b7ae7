"""SVD-softmax (Shim et al. 2017): the first columns of the rotated head give a preview.

With head = U Σ Vᵀ the product with x is (U Σ)(Vᵀ x), whose first columns carry most of it. The
method rescores in the rotated columns; since these give the same product, we keep the head's own
rows for that. V comes from the eigenvectors of headᵀ head, which needs no copy of the head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.preview import PreviewShortlist
from quoth.models.pixar.shortlist.rows import Rows, to_floats

ROWS_AT_ONCE = 1 << 16


def build_svd(
    head: Tensor, bias: Tensor, *, rows: Rows, config: RivalConfig, threads: int
) -> PreviewShortlist:
    """Rotate a head (V, D) and keep the first `window` columns."""
    _values, axes = torch.linalg.eigh(gram(head))  # ascending
    first = axes.flip(1)[:, : config.window].float()
    copy = Rows.store(project(head, first), bias, storage="bfloat16", threads=threads)
    return PreviewShortlist(rows, config, copy=copy, projection=to_floats(first))


def gram(head: Tensor) -> Tensor:  # (D, D)
    """Compute headᵀ head in float64, a block of rows at a time."""
    total = torch.zeros(head.shape[1], head.shape[1], dtype=torch.float64, device=head.device)
    for block in torch.split(head, ROWS_AT_ONCE):
        total += (block.float().T @ block.float()).double()
    return total


def project(head: Tensor, columns: Tensor) -> Tensor:  # (V, window)
    """Compute head · columns in bfloat16, a block of rows at a time."""
    blocks = torch.split(head, ROWS_AT_ONCE)
    return torch.cat([(block.float() @ columns).bfloat16() for block in blocks])
