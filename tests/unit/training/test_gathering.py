"""Gathered negatives: two processes compute the loss, and the gradient, of one big batch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from quoth.training import distribution
from quoth.training.retriever.losses import info_nce


class TwoProcesses:
    """Stands in for torch.distributed: the other process's rows and gradients are given."""

    def __init__(self, other_rows: torch.Tensor, other_gradient: torch.Tensor) -> None:
        self.other_rows, self.other_gradient = other_rows, other_gradient

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def get_world_size(self) -> int:
        return 2

    def get_rank(self) -> int:
        return 0

    def all_gather(self, parts: list[torch.Tensor], rows: torch.Tensor) -> None:
        parts[0].copy_(rows)
        parts[1].copy_(self.other_rows)

    def all_reduce(self, total: torch.Tensor) -> None:
        total += self.other_gradient


def test_the_gradient_of_gathered_rows_is_that_of_the_sum_of_losses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = torch.Generator().manual_seed(0)
    queries, documents = (
        functional.normalize(torch.randn(6, 4, generator=chance), dim=-1) for _ in range(2)
    )
    whole = documents.clone().requires_grad_()
    losses = [
        info_nce(queries[:3], whole, scale=9.0),
        info_nce(queries[3:], torch.cat((whole[3:], whole[:3])), scale=9.0),
    ]
    sum(losses).backward()  # type: ignore[union-attr]
    from_other = torch.autograd.grad(
        info_nce(queries[3:], torch.cat((whole[3:], whole[:3])), scale=9.0), whole
    )[0]
    monkeypatch.setattr(distribution, "distributed", TwoProcesses(documents[3:], from_other))
    own = documents[:3].clone().requires_grad_()
    loss = info_nce(queries[:3], distribution.gather_rows(own), scale=9.0)
    loss.backward()
    assert loss.item() == pytest.approx(losses[0].item(), rel=1e-6)
    assert whole.grad is not None
    torch.testing.assert_close(own.grad, whole.grad[:3])
