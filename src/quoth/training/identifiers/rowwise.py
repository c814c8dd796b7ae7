"""Train a large table with one number of state per row, or none, inside the one training loop.

AdamW keeps two more tables; at millions of rows that is most of the memory. Here a row's gradient
is used as soon as it is complete, and dropped: the loop's own optimiser finds none and skips the
table, so it is neither clipped nor decayed. The state is a buffer, which checkpoints carry.
"""

from __future__ import annotations

import torch
from torch import Tensor, distributed, nn

from quoth.errors import ConfigError

OPTIMISERS = ("rowwise_adagrad", "sgd")
EPSILON = 1e-10


class RowwiseOptimiser(nn.Module):
    """Moves one table (N, D) whenever the gradients of a step have been added up.

    rowwise_adagrad divides a row's gradient by the root of the sum of its mean squares so far; sgd
    takes it as it is.
    """

    def __init__(self, table: nn.Parameter, *, optimiser: str, accumulate: int = 1) -> None:
        super().__init__()
        if optimiser not in OPTIMISERS:
            raise ConfigError(
                f"the optimiser of a table is {optimiser!r}, expected one of {OPTIMISERS}"
            )
        if distributed.is_available() and distributed.is_initialized():
            raise ConfigError(
                f"{optimiser} does not wait for the gradients of other processes; use adamw there"
            )
        self.learning_rate = 0.0
        self._passes, self._accumulate = 0, accumulate
        size = len(table) if optimiser == "rowwise_adagrad" else 0
        self.squares = nn.Buffer(torch.zeros(size, device=table.device))
        self._handle = table.register_post_accumulate_grad_hook(self._use)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Let go of the table."""
        self._handle.remove()

    @torch.no_grad()
    def _use(self, table: Tensor) -> None:
        self._passes += 1
        if self._passes < self._accumulate or table.grad is None:
            return
        gradient, self._passes = table.grad, 0
        table.grad = None
        factors = torch.full((len(table),), self.learning_rate, device=table.device)
        if len(self.squares):
            self.squares.add_(torch.linalg.vector_norm(gradient, dim=1).square() / table.shape[1])
            factors = factors / (self.squares.sqrt() + EPSILON)
        table -= gradient.mul_(factors[:, None])  # in place: the gradient is not needed any more
