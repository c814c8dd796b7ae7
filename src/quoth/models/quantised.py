"""Weights made small for shipping: int8 rows with a scale each, or bf16, in a sealed file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from quoth.errors import ConfigError
from quoth.models.tensor_files import SCALE, read_sealed_arrays

DTYPES = ("int8", "bf16", "fp32")


def quantise(tensors: Mapping[str, Tensor], *, dtype: str) -> dict[str, Tensor]:
    """Shrink tensors: matrices to int8 rows with a scale each (or bf16), the rest to fp16.

    >>> small = quantise({"w": torch.tensor([[1.27, -0.64]])}, dtype="int8")
    >>> small["w"].tolist(), round(float(small["w.scale"]), 6)
    ([[127, -64]], 0.01)
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype is {dtype!r}, expected one of {', '.join(DTYPES)}")
    if dtype == "fp32":
        return {name: tensor.float() for name, tensor in tensors.items()}
    if dtype == "bf16":
        return {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    small: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2:
            small[name] = tensor.half()
            continue
        scale = tensor.float().abs().amax(1) / 127
        safe = scale.clamp_min(torch.finfo(torch.float32).tiny)
        small[name] = (tensor / safe[:, None]).round().clamp(-127, 127).to(torch.int8)
        small[name + SCALE] = scale
    return small


def dequantise(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors in fp32."""
    whole = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int8:
            whole[name] = tensor.float() * tensors[name + SCALE][:, None]
        elif not name.endswith(SCALE):
            whole[name] = tensor.float()
    return whole


def read_sealed(path: Path, *, sha256: str) -> dict[str, Tensor]:
    """Read tensors as they were written; an altered file is refused."""
    arrays = read_sealed_arrays(path, sha256=sha256)
    return {name: torch.tensor(array) for name, array in arrays.items()}
