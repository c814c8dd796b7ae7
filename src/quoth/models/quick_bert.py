"""BERT to read with, as quick as this machine allows.

Where a processor multiplies int8 in hardware, matrices are int8 with a scale per row, and so is
each subword's state before a product, by its own range: what is read together with a text changes
nothing about it. About half the time of fp32. The rest, and everything on other processors, is
fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from quoth.models.bert import Bert, BertShape

_TINY = torch.finfo(torch.float32).tiny
_ATTENDED = ("query", "key", "value")


def quicken(tensors: Mapping[str, Tensor], shape: BertShape) -> Bert:
    """Return the network that reads quickest here."""
    quick = torch.cpu._is_vnni_supported() and hasattr(torch, "_int_mm")
    return Int8Bert(tensors, shape) if quick else Bert(tensors, shape)


class Int8Bert(Bert):
    """A transformer whose matrices are multiplied in int8."""

    def __init__(self, tensors: Mapping[str, Tensor], shape: BertShape) -> None:
        """`tensors` by the names that transformers gives them, in fp32."""
        self._matrices: dict[str, _Matrix] = {}
        rest = dict(tensors)
        for layer in range(shape.num_layers):
            within = f"encoder.layer.{layer}."
            joined = [f"{within}attention.self.{name}" for name in _ATTENDED]
            self._matrices[f"{within}attention.self"] = _take(rest, joined)
            for name in ("attention.output.dense", "intermediate.dense", "output.dense"):
                self._matrices[within + name] = _take(rest, [within + name])
        super().__init__(rest, shape)

    def _project_attended(
        self, within: str, states: Tensor, kept: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Multiply by all three matrices at once, as states need to be rounded once then."""
        query, key, value = self._project(f"{within}attention.self", states).chunk(3, dim=-1)
        return query[:, :kept], key, value

    def _project(self, name: str, states: Tensor) -> Tensor:
        matrix = self._matrices[name]
        flat = states.reshape(-1, states.shape[-1])
        ranges = flat.abs().amax(1, keepdim=True).div_(127).clamp_min_(_TINY)
        small = (flat / ranges).round_().to(torch.int8)
        product = torch._int_mm(small, matrix.weight) * ranges
        found = torch.addcmul(matrix.bias, product, matrix.scales, out=product)
        return found.view(*states.shape[:-1], -1)


class _Matrix(NamedTuple):
    """A matrix of int8, laid out for products."""

    weight: Tensor  # (D, N)
    scales: Tensor  # (N,)
    bias: Tensor  # (N,)


def _take(tensors: dict[str, Tensor], names: list[str]) -> _Matrix:
    """Take layers out of the tensors, as one matrix rounded to int8 by rows."""
    weight = torch.cat([tensors.pop(f"{name}.weight") for name in names])
    bias = torch.cat([tensors.pop(f"{name}.bias") for name in names])
    scales = (weight.abs().amax(1) / 127).clamp_min(_TINY)
    small = (weight / scales[:, None]).round().to(torch.int8)
    return _Matrix(small.t(), scales, bias)
