"""Weights made small for shipping: int8 rows with a scale each, or bf16, in a sealed file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from quoth.errors import ConfigError, Damaged

DTYPES = ("int8", "bf16", "fp32")
_SCALE = ".scale"


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
        small[name + _SCALE] = scale
    return small


def dequantise(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors in fp32."""
    whole = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int8:
            whole[name] = tensor.float() * tensors[name + _SCALE][:, None]
        elif not name.endswith(_SCALE):
            whole[name] = tensor.float()
    return whole


def read_sealed(path: Path, *, sha256: str) -> dict[str, Tensor]:
    """Read tensors as they were written; an altered file is refused."""
    if not path.exists():
        raise Damaged(f"{path} is missing; copy the folder anew")
    if digest(path) != sha256:
        raise Damaged(f"{path} was altered or cut since it was written; copy the folder anew")
    try:
        return load_file(str(path))
    except SafetensorError as error:
        raise Damaged(f"{path} cannot be read ({error}); copy the folder anew") from error


def digest(path: Path) -> str:
    """Return the checksum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
