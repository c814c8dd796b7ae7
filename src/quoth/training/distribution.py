"""What several processes share beyond gradients: the documents of their batches, as negatives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed


class _Gather(torch.autograd.Function):
    """Collect rows of all processes; gradients flow back to the process they came from."""

    @staticmethod
    def forward(_context: Any, rows: Tensor) -> Tensor:
        """Collect."""
        parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        """Add up what every process found for the rows of this one."""
        total = gradients[0].contiguous()
        distributed.all_reduce(total)
        size = len(total) // distributed.get_world_size()
        rank = distributed.get_rank()
        return total[rank * size : (rank + 1) * size]


def gather_rows(rows: Tensor) -> Tensor:  # (B, …) → (processes · B, …)
    """Collect the rows of all processes in the order of their ranks; alone, these rows again."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return rows
    gathered: Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
    return gathered
