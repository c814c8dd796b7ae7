"""A table too large for one process: each of several holds a stretch of its rows, and trains it.

All processes then work on the same batch, each on its share of the inputs; what they make of them
is gathered (`distribution.gather_rows`) before it meets the table. A batch is so the same however
many there are, and training with one process or several gives the same model up to rounding.
Outside the process, in checkpoints above all, a table is always whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from quoth.training.distribution import count_processes, process_number


@dataclass(frozen=True, slots=True)
class TableSplit:
    """Which rows of a table a process holds: all hold as many, but the last ones."""

    total: int
    process: int
    processes: int

    @classmethod
    def over_processes(cls, total: int) -> Self:
        """Split a table over the processes that train together."""
        return cls(total, process_number(), count_processes())

    @property
    def size(self) -> int:
        """Rows of the first process.

        >>> [TableSplit(10, each, 4).rows for each in range(4)]
        [slice(0, 3, None), slice(3, 6, None), slice(6, 9, None), slice(9, 10, None)]
        """
        return -(-self.total // self.processes)

    @property
    def rows(self) -> slice:
        """The rows of this process."""
        first = min(self.total, self.process * self.size)
        return slice(first, min(self.total, first + self.size))

    def own(self, whole: Tensor) -> Tensor:
        """Cut this process's rows out of a table."""
        return whole[self.rows].clone()

    def whole(self, own: Tensor) -> Tensor:
        """Put the rows of all processes together; every one of them must call this."""
        missing = self.size - len(own)
        padded = functional.pad(own.detach(), (0, 0) * (own.ndim - 1) + (0, missing))
        parts = [torch.empty_like(padded) for _ in range(self.processes)]
        distributed.all_gather(parts, padded.contiguous())
        return torch.cat(parts)[: self.total]


Splits = Mapping[str, TableSplit]
"""The parameters of a network that are split, by name; empty where each process holds all."""


def join(name: str, tensor: Tensor, splits: Splits) -> Tensor:
    """Make a parameter, or an optimiser's state of one, whole; all processes must call this."""
    return splits[name].whole(tensor) if name in splits and tensor.ndim else tensor


def cut(name: str, tensor: Tensor, splits: Splits) -> Tensor:
    """Take from a whole parameter, or an optimiser's state of one, what this process holds."""
    return splits[name].own(tensor) if name in splits and tensor.ndim else tensor


@torch.no_grad()
def clip_gradients(network: nn.Module, highest: float, splits: Splits) -> None:
    """Scale gradients down to a length that is counted over all rows of all tables."""
    if not splits:
        nn.utils.clip_grad_norm_(network.parameters(), highest)
        return
    shared: list[Tensor] = []
    own_tables: list[Tensor] = []
    for name, parameter in network.named_parameters():
        if parameter.grad is not None:
            is_split = name.removeprefix("module.") in splits  # DistributedDataParallel's prefix
            (own_tables if is_split else shared).append(parameter.grad)
    own = nn.utils.get_total_norm(own_tables).square()
    distributed.all_reduce(own)
    length = (nn.utils.get_total_norm(shared).square() + own).sqrt()
    factor = (highest / (length + 1e-6)).clamp_max(1.0)
    for gradient in (*shared, *own_tables):
        gradient.mul_(factor)
