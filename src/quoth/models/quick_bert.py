"""BERT to read with, as quick as this machine allows.

Where a processor multiplies int8 in hardware, matrices are int8 with a scale per row, and states
are rounded to 8 bits before each product, by their own range: less than half the time of fp32. The
rest, and everything on other processors, is fp32.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from quoth.models.bert import Bert, BertShape

_ENGINE = "onednn"


def quicken(tensors: Mapping[str, Tensor], shape: BertShape) -> Bert:
    """Return the network that reads quickest here."""
    multiplies = torch.cpu._is_vnni_supported() and hasattr(torch, "quantize_per_channel")
    quick = multiplies and _ENGINE in torch.backends.quantized.supported_engines
    return Int8Bert(tensors, shape) if quick else Bert(tensors, shape)


class Int8Bert(Bert):
    """A transformer whose matrices are multiplied in int8."""

    def __init__(self, tensors: Mapping[str, Tensor], shape: BertShape) -> None:
        """`tensors` by the names that transformers gives them, in fp32."""
        matrices = [
            name.removesuffix(".weight")
            for name, tensor in tensors.items()
            if name.startswith("encoder.layer.") and tensor.ndim == 2
        ]
        with _engine():
            self._packed: dict[str, Any] = {
                name: _pack(tensors[f"{name}.weight"], tensors[f"{name}.bias"]) for name in matrices
            }
        packed = {f"{name}.{part}" for name in matrices for part in ("weight", "bias")}
        rest = {name: tensor for name, tensor in tensors.items() if name not in packed}
        super().__init__(rest, shape)

    def _project(self, name: str, states: Tensor) -> Tensor:
        found: Tensor = torch.ops.quantized.linear_dynamic(states, self._packed[name], False)
        return found


def _pack(weight: Tensor, bias: Tensor) -> Any:
    """Round a matrix to int8 by rows and lay it out for products."""
    scales = (weight.abs().amax(1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    zeros = torch.zeros(len(scales), dtype=torch.long)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor", category=UserWarning)
        small = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(small, bias)


@contextmanager
def _engine() -> Iterator[None]:
    """Choose who lays out matrices, which also decides who multiplies them."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = _ENGINE
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
