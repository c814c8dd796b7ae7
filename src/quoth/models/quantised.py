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


def requantise(
    tensors: Mapping[str, Tensor], like: Mapping[str, Tensor], *, seed: int
) -> dict[str, Tensor]:
    """Shrink tensors that were trained a little from quantised ones, losing nothing on average.

    Few steps of training change a weight by less than half a step of int8, and rounding to the
    nearest would restore what was there before. Each matrix keeps the scales of `like`, and a
    weight between two steps goes to either, the more probably the nearer. The largest of each row
    stay, as readers take the scale from them.

    >>> old = quantise({"w": torch.tensor([[1.27, -0.64]])}, dtype="int8")
    >>> new = {"w": torch.tensor([[1.27, -0.636]]).repeat(1000, 1)}
    >>> many = {name: each.repeat(1000, *[1] * (each.ndim - 1)) for name, each in old.items()}
    >>> round(float(dequantise(requantise(new, many, seed=0))["w"][:, 1].mean()), 3)
    -0.636
    """
    chance = torch.Generator().manual_seed(seed)
    small: dict[str, Tensor] = {}
    for name, old in like.items():
        if old.dtype == torch.int8:
            scale = like[name + SCALE].clamp_min(torch.finfo(torch.float32).tiny)
            steps = tensors[name].float() / scale[:, None]
            moved = (steps + torch.rand(steps.shape, generator=chance)).floor().clamp(-127, 127)
            small[name] = torch.where(old.abs() == 127, old, moved.to(torch.int8))
        elif name.endswith(SCALE):
            small[name] = old
        else:
            small[name] = tensors[name].to(old.dtype)
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
