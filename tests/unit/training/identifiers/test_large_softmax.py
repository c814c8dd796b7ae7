"""The chunked softmax is the softmax: values, gradients, precision, processes, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from forking import run_together
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tests.unit.training import softmax_worker as worker
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from quoth.errors import ConfigError
from quoth.training.identifiers.large_softmax import SoftmaxTerms, large_softmax


def whole(
    rows: Tensor,
    head: Tensor,
    bias: Tensor,
    targets: Tensor,
    target_rows: Tensor,
    unit: bool,
) -> SoftmaxTerms:
    """The same, holding every logit."""
    logits = rows @ (functional.normalize(head, dim=1) if unit else head).T + bias
    return SoftmaxTerms(logits[target_rows, targets], logits.logsumexp(1))


def problem(seed: int, count: int, phrases: int, wanted: int) -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return {
        "rows": 3 * torch.randn(count, 4, generator=chance, dtype=torch.float64),
        "head": torch.randn(phrases, 4, generator=chance, dtype=torch.float64),
        "bias": torch.randn(phrases, generator=chance, dtype=torch.float64),
        "targets": torch.randint(phrases, (wanted,), generator=chance),
        "target_rows": torch.randint(count, (wanted,), generator=chance),
    }


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    count=st.integers(1, 6),
    phrases=st.integers(1, 20),
    wanted=st.integers(0, 9),
    chunk=st.integers(1, 25),
    unit=st.booleans(),
)
def test_values_and_gradients_are_those_of_the_whole_softmax(
    seed: int, count: int, phrases: int, wanted: int, chunk: int, unit: bool
) -> None:
    given_ = problem(seed, count, phrases, wanted)
    leaves = [given_[name].requires_grad_() for name in ("rows", "head", "bias")]
    places = {name: given_[name] for name in ("targets", "target_rows")}
    expected = whole(*leaves, **places, unit=unit)
    found = large_softmax(*leaves[:2], bias=leaves[2], **places, unit=unit, chunk=chunk)
    torch.testing.assert_close(found, expected)
    chance = torch.Generator().manual_seed(seed)
    weights = [torch.randn(len(each), generator=chance, dtype=torch.float64) for each in expected]
    sums = [
        sum((weight * each).sum() for weight, each in zip(weights, terms, strict=True))
        for terms in (found, expected)
    ]
    gradients = [torch.autograd.grad(each, leaves) for each in sums]  # type: ignore[arg-type]
    torch.testing.assert_close(*gradients)


def test_gradients_pass_gradcheck() -> None:
    given_ = problem(1, 3, 7, 5)
    leaves = [given_[name].requires_grad_() for name in ("rows", "head", "bias")]

    def run(rows: Tensor, head: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        places = {name: given_[name] for name in ("targets", "target_rows")}
        return large_softmax(rows, head, bias=bias, **places, unit=True, chunk=3)

    assert torch.autograd.gradcheck(run, leaves)


def test_one_target_per_row_gives_the_cross_entropy() -> None:
    given_ = problem(2, 6, 11, 6)
    rows, head, targets = (given_[name] for name in ("rows", "head", "targets"))
    terms = large_softmax(rows.float(), head.float(), targets=targets, chunk=4)
    expected = functional.cross_entropy(rows.float() @ head.float().T, targets, reduction="none")
    torch.testing.assert_close(terms.log_normalisers - terms.logits, expected)


def test_bf16_products_are_added_up_in_fp32() -> None:
    chance = torch.Generator().manual_seed(3)
    rows = 4 * torch.randn(8, 64, generator=chance)
    head = torch.randn(500, 64, generator=chance)
    targets = torch.arange(8)
    found = large_softmax(rows, head, targets=targets, unit=True, chunk=64, dtype=torch.bfloat16)
    rounded = functional.normalize(head, dim=1).bfloat16().double()
    logits = rows.bfloat16().double() @ rounded.T
    assert found.logits.dtype == torch.float32
    torch.testing.assert_close(
        found.log_normalisers.double(), logits.logsumexp(1), atol=1e-5, rtol=1e-6
    )
    torch.testing.assert_close(
        found.logits.double(), logits[torch.arange(8), targets], atol=1e-5, rtol=1e-6
    )


def test_great_logits_do_not_overflow() -> None:
    rows, head = torch.tensor([[1e4]]), torch.tensor([[1.0], [-1.0], [0.9]])
    terms = large_softmax(rows, head, targets=torch.tensor([0]), chunk=1)
    assert terms.log_normalisers.item() == pytest.approx(1e4)
    assert terms.logits.item() == pytest.approx(1e4)


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, tuple | list) else (out,):
            if isinstance(each, Tensor):
                self.numel = max(self.numel, each.numel())
        return out


@pytest.mark.parametrize("unit", [False, True])
def test_rows_times_vocabulary_are_never_held(unit: bool) -> None:
    count, phrases, width, chunk = 64, 4_000, 8, 100
    rows = torch.randn(count, width).requires_grad_()
    head = torch.randn(phrases, width).requires_grad_()
    saved = []
    with (
        Largest() as largest,
        torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: saved.append(tensor.numel()) or tensor, lambda tensor: tensor
        ),
    ):
        terms = large_softmax(rows, head, targets=torch.arange(count), unit=unit, chunk=chunk)
        (terms.log_normalisers - terms.logits).sum().backward()
    assert rows.grad is not None and head.grad is not None
    assert largest.numel == phrases * width, "the gradient of the head, and no logits beside it"
    assert max(saved) == phrases * width and phrases * width < count * phrases


def test_a_vocabulary_split_over_two_processes_is_one_vocabulary(tmp_path: Path) -> None:
    assert run_together(worker.run_part, [(tmp_path, rank) for rank in range(2)]) == [0, 0]
    first, second = (load_file(tmp_path / f"{rank}.safetensors") for rank in range(2))
    expected = worker.solve(worker.make_problem())
    for name in ("logits", "log_normalisers", "rows"):
        torch.testing.assert_close(first[name], expected[name])
        torch.testing.assert_close(second[name], expected[name])
    for name in ("head", "bias"):
        torch.testing.assert_close(torch.cat((first[name], second[name])), expected[name])


def test_targets_must_belong_to_rows() -> None:
    rows, head = torch.ones(2, 3), torch.ones(4, 3)
    with pytest.raises(ConfigError, match=r"chunk is 0.*\(3,\) targets belong to \(2,\) rows"):
        large_softmax(rows, head, targets=torch.tensor([0, 1, 2]), chunk=0)
