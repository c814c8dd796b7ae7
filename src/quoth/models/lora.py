"""Low-rank adapters over frozen linear layers (Hu et al. 2021), for Llama- and GPT-2-like models.

An adapter adds (alpha / rank) · up(down(x)) to a layer's output; `up` starts at zero, so that a
model with fresh adapters is the model without them. The layers beneath may be shared with other
models: nothing here ever writes to them, and `merge_adapters` makes new weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from quoth.errors import ConfigError

TARGETS = (
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),  # Llama
    *("c_attn", "c_proj", "c_fc"),  # GPT-2
)
"""Names of the layers that get adapters, where a model has them."""


class AdaptedLinear(nn.Module):
    """A frozen linear layer with an adapter of its own."""

    def __init__(self, base: nn.Module, *, rank: int, alpha: float, dropout: float) -> None:
        super().__init__()
        weight = _weight(base)  # (out, in)
        self.base = base
        self.scale = alpha / rank
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Parameter(weight.new_zeros(rank, weight.shape[1]))
        self.up = nn.Parameter(weight.new_zeros(weight.shape[0], rank))

    def start(self, generator: torch.Generator) -> None:
        """Draw `down` as linear layers are drawn; `up` stays zero."""
        bound = 1 / math.sqrt(self.down.shape[1])
        drawn = torch.rand(self.down.shape, generator=generator) * (2 * bound) - bound
        with torch.no_grad():
            self.down.copy_(drawn)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer and its adapter."""
        if inputs.is_cuda and not (self.training and self.dropout.p):
            return functional.linear(inputs, self.joined_weight(), self.base.bias)  # type: ignore[arg-type]
        output: Tensor = self.base(inputs)
        low = functional.linear(self.dropout(inputs), self.down)
        return torch.add(output, functional.linear(low, self.up), alpha=self.scale)

    def joined_weight(self) -> Tensor:  # (out, in)
        """Add the adapter to the weight, with gradients.

        A GPU multiplies by one full matrix sooner than by two narrow ones besides.
        """
        with torch.autocast(self.up.device.type, enabled=False):
            return torch.addmm(_weight(self.base), self.up, self.down, alpha=self.scale)

    def merged(self) -> nn.Linear:
        """Make one linear layer that does the same; the frozen one stays as it is."""
        weight = _weight(self.base).detach()
        bias = self.base.bias
        with torch.no_grad():
            whole = merge_weight(weight, down=self.down, up=self.up, scale=self.scale)
        made = nn.Linear(whole.shape[1], whole.shape[0], bias=bias is not None, device="meta")
        made.weight = nn.Parameter(whole, requires_grad=False)
        if bias is not None:
            made.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)  # type: ignore[operator]
        return made


def merge_weight(weight: Tensor, *, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """Add an adapter to a weight (out, in): in fp32, then rounded once."""
    whole = (scale * up.float()) @ down.float()
    whole += weight
    return whole.to(weight.dtype)


def add_adapters(
    model: nn.Module, *, rank: int, alpha: float, dropout: float, generator: torch.Generator
) -> None:
    """Put an adapter around every target layer of a model, and freeze all else in it."""
    found = [name for name, _layer in model.named_modules() if name.rpartition(".")[2] in TARGETS]
    if not found:
        raise ConfigError(
            f"a {type(model).__name__} has none of the layers that adapters go on"
            f" ({', '.join(TARGETS)}); name a model of the Llama or GPT-2 family,"
            " or set tuning to full"
        )
    model.requires_grad_(False)
    for name in found:
        layer = model.get_submodule(name)
        adapted = AdaptedLinear(layer, rank=rank, alpha=alpha, dropout=dropout)
        adapted.start(generator)
        model.set_submodule(name, adapted)


def merge_adapters(model: nn.Module) -> None:
    """Replace every adapted layer by a plain one that does the same; it cannot be trained on."""
    for name, adapted in _adapted(model).items():
        model.set_submodule(name, adapted.merged())


def adapter_tensors(model: nn.Module) -> dict[str, Tensor]:
    """List adapters as peft names them, less its prefix: `….lora_A.weight`, `….lora_B.weight`."""
    tensors = {}
    for name, adapted in _adapted(model).items():
        tensors[f"{name}.lora_A.weight"] = adapted.down.detach()
        tensors[f"{name}.lora_B.weight"] = adapted.up.detach()
    return tensors


def load_adapters(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Copy adapters into a model; give the names that are missing, too many or ill-shaped."""
    own = adapter_tensors(model)
    wrong = [
        name
        for name in sorted(own.keys() | tensors.keys())
        if name not in own or name not in tensors or own[name].shape != tensors[name].shape
    ]
    if not wrong:
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
    return wrong


def target_names(model: nn.Module) -> list[str]:
    """List the last names of the adapted layers, sorted."""
    return sorted({name.rpartition(".")[2] for name in _adapted(model)})


def is_transposed(model: nn.Module) -> bool:
    """Whether the adapted layers keep their weights as (in, out), as GPT-2 does."""
    return any(_is_conv(adapted.base) for adapted in _adapted(model).values())


def _adapted(model: nn.Module) -> dict[str, AdaptedLinear]:
    return {
        name: layer for name, layer in model.named_modules() if isinstance(layer, AdaptedLinear)
    }


def _weight(layer: nn.Module) -> Tensor:  # (out, in)
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight.T if _is_conv(layer) else weight


def _is_conv(layer: nn.Module) -> bool:
    """Whether a layer is GPT-2's; transformers is loaded only where it may be."""
    if isinstance(layer, nn.Linear):
        return False
    from transformers.pytorch_utils import Conv1D

    return isinstance(layer, Conv1D)
