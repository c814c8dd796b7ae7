from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from quoth.errors import ConfigError
from quoth.models.lora import (
    AdaptedLinear,
    adapter_tensors,
    add_adapters,
    load_adapters,
    merge_adapters,
    target_names,
)


class Block(nn.Module):
    """Two layers that adapters go on, one that they do not."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(6, 4)
        self.c_fc = Conv1D(5, 4)
        self.other = nn.Linear(5, 5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.other(self.c_fc(self.q_proj(inputs)))
        return found


def adapt(block: nn.Module, *, dropout: float = 0.0) -> nn.Module:
    chance = torch.Generator().manual_seed(1)
    add_adapters(block, rank=2, alpha=6.0, dropout=dropout, generator=chance)
    return block


@pytest.mark.parametrize("transposed", [False, True])
def test_an_adapter_adds_its_low_rank_product(transposed: bool) -> None:
    base = Conv1D(3, 2) if transposed else nn.Linear(2, 3)
    adapted = AdaptedLinear(base, rank=1, alpha=5.0, dropout=0.0)
    inputs = torch.tensor([[1.0, 10.0]])
    with torch.no_grad():
        assert torch.equal(adapted(inputs), base(inputs))
        adapted.down.copy_(torch.tensor([[2.0, 3.0]]))
        adapted.up.copy_(torch.tensor([[1.0], [0.0], [-1.0]]))
        change = adapted(inputs) - base(inputs)
    expected = 5.0 * (2 * 1 + 3 * 10)
    torch.testing.assert_close(change, torch.tensor([[expected, 0.0, -expected]]))


@pytest.mark.parametrize("transposed", [False, True])
def test_a_joined_weight_gives_the_same_output_and_gradients(transposed: bool) -> None:
    """The way a GPU takes: one full matrix instead of two narrow ones."""
    base = (Conv1D(3, 2) if transposed else nn.Linear(2, 3)).requires_grad_(False)
    adapted = AdaptedLinear(base, rank=2, alpha=6.0, dropout=0.0)
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        adapted.down.copy_(torch.randn(2, 2, generator=chance))
        adapted.up.copy_(torch.randn(3, 2, generator=chance))
    inputs = torch.randn(4, 2, generator=chance, requires_grad=True)
    learnt = (inputs, adapted.down, adapted.up)
    narrow = adapted(inputs)
    full = nn.functional.linear(inputs, adapted.joined_weight(), base.bias)
    torch.testing.assert_close(full, narrow)
    for found, expected in zip(
        torch.autograd.grad(full.square().sum(), learnt),
        torch.autograd.grad(narrow.square().sum(), learnt),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)


def test_merging_makes_new_weights_and_leaves_the_old_ones() -> None:
    block, inputs = Block(), torch.randn(3, 6)
    shared = block.q_proj.weight
    before = shared.detach().clone()
    adapt(block)
    with torch.no_grad():
        for tensor in adapter_tensors(block).values():
            tensor += 0.5
        expected = block(inputs)
        merge_adapters(block)
        torch.testing.assert_close(block(inputs), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(shared, before)
    assert isinstance(block.q_proj, nn.Linear) and isinstance(block.c_fc, nn.Linear)
    assert not adapter_tensors(block)


def test_only_adapters_are_trained_and_dropout_is_for_training() -> None:
    block = adapt(Block(), dropout=0.5)
    trained = {name for name, each in block.named_parameters() if each.requires_grad}
    assert trained == {f"{name}.{part}" for name in ("q_proj", "c_fc") for part in ("down", "up")}
    assert target_names(block) == ["c_fc", "q_proj"]
    with torch.no_grad():
        for tensor in adapter_tensors(block).values():
            tensor += 1.0
    inputs = torch.ones(4, 6)
    block.eval()
    assert torch.equal(block(inputs), block(inputs))
    block.train()
    assert not torch.equal(block(inputs), block(inputs))


def test_adapters_move_from_one_model_to_another_or_not_at_all() -> None:
    first, second = adapt(Block()), adapt(Block())
    with torch.no_grad():
        for tensor in adapter_tensors(first).values():
            tensor += 1.0
    tensors = {name: tensor.clone() for name, tensor in adapter_tensors(first).items()}
    tensors["x_proj.lora_A.weight"] = tensors.pop("q_proj.lora_A.weight")
    tensors["c_fc.lora_A.weight"] = torch.zeros(3, 4)
    untouched = {name: tensor.clone() for name, tensor in adapter_tensors(second).items()}
    wrong = load_adapters(second, tensors)
    assert wrong == ["c_fc.lora_A.weight", "q_proj.lora_A.weight", "x_proj.lora_A.weight"]
    for name, tensor in adapter_tensors(second).items():
        assert torch.equal(tensor, untouched[name])
    assert load_adapters(second, adapter_tensors(first)) == []
    for name, tensor in adapter_tensors(second).items():
        assert torch.equal(tensor, adapter_tensors(first)[name])


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(ConfigError, match="none of the layers"):
        adapt(nn.Sequential(nn.Linear(2, 2)))
