"""What several processes share beyond gradients: documents as negatives, files, and decisions.

Where `torch.distributed` is not initialised, a process is the first and only one.
"""

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


class _AddUp(torch.autograd.Function):
    """Add up what all processes hold; each then works on the same sum, so gradients pass as is."""

    @staticmethod
    def forward(_context: Any, own: Tensor) -> Tensor:
        """Add up."""
        total = own.contiguous().clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        """Return the gradient of the sum."""
        return gradients[0]


def is_distributed() -> bool:
    """Whether this process trains together with others."""
    return distributed.is_available() and distributed.is_initialized()


def count_processes() -> int:
    """Count the processes that train together."""
    return distributed.get_world_size() if is_distributed() else 1


def process_number() -> int:
    """Number this process among them, from 0; the first one writes the files."""
    return distributed.get_rank() if is_distributed() else 0


def agree(reason: str) -> str:
    """Return what the first process says: all stop at the same step, or none."""
    if count_processes() == 1:
        return reason
    said = [reason]
    distributed.broadcast_object_list(said, src=0)
    return said[0]


def gather_rows(rows: Tensor) -> Tensor:  # (B, …) → (processes · B, …)
    """Collect the rows of all processes in the order of their ranks; alone, these rows again."""
    if not is_distributed():
        return rows
    gathered: Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
    return gathered


def add_up(own: Tensor) -> Tensor:
    """Add up tensors of one shape over all processes, which lose the same by the sum; alone, own.

    The gradient is right where every process computes the whole loss and holds other summands.
    """
    if not is_distributed():
        return own
    total: Tensor = _AddUp.apply(own)  # type: ignore[no-untyped-call]
    return total
