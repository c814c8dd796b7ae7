"""The optimisers of large tables: their arithmetic, and that the loop's own leaves them alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from quoth.errors import ConfigError
from quoth.training.identifiers.rowwise import RowwiseOptimiser


def step(table: nn.Parameter, gradient: torch.Tensor) -> None:
    (table * gradient).sum().backward()


def test_adagrad_divides_by_the_root_of_a_rows_mean_squares() -> None:
    table = nn.Parameter(torch.ones(2, 2))
    own = RowwiseOptimiser(table, optimiser="rowwise_adagrad")
    own.learning_rate = 0.1
    step(table, torch.tensor([[3.0, 1.0], [0.0, 0.0]]))
    assert own.squares.tolist() == pytest.approx([(9 + 1) / 2, 0.0])
    expected = [1 - 0.1 * 3 / 5**0.5, 1 - 0.1 * 1 / 5**0.5, 1.0, 1.0]
    assert table.flatten().tolist() == pytest.approx(expected)
    step(table, torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
    assert own.squares.tolist() == pytest.approx([5 + 1, 2.0])
    assert table[1].tolist() == pytest.approx([1 - 0.1 * 2 / 2**0.5, 1.0])
    assert table.grad is None, "nothing is left for another optimiser"


def test_sgd_keeps_no_state() -> None:
    table = nn.Parameter(torch.ones(3, 2))
    own = RowwiseOptimiser(table, optimiser="sgd")
    own.learning_rate = 0.5
    step(table, torch.full((3, 2), 2.0))
    assert table.flatten().tolist() == [0.0] * 6
    assert own.squares.numel() == 0


def test_accumulated_gradients_are_used_once() -> None:
    tables = [nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    gradients = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[4.0, 0.0], [-1.0, 1.0]])]
    for table, accumulate in zip(tables, (2, 1), strict=True):
        RowwiseOptimiser(
            table, optimiser="rowwise_adagrad", accumulate=accumulate
        ).learning_rate = 1
    for gradient in gradients:
        step(tables[0], gradient)
    step(tables[1], sum(gradients))  # type: ignore[arg-type]
    torch.testing.assert_close(*tables)


def test_a_closed_one_leaves_gradients_alone() -> None:
    table = nn.Parameter(torch.ones(1, 1))
    RowwiseOptimiser(table, optimiser="sgd").close()
    step(table, torch.ones(1, 1))
    assert table.item() == 1.0 and table.grad is not None


def test_unknown_optimisers_are_errors() -> None:
    with pytest.raises(ConfigError, match="optimiser of a table is 'adam'"):
        RowwiseOptimiser(nn.Parameter(torch.ones(1, 1)), optimiser="adam")
