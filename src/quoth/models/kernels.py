"""Which of torch's kernels attend; apart from what replaces attention, which needs transformers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

_STEADY = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@contextmanager
def steady_kernels(device: torch.device) -> Iterator[None]:
    """Attend by kernels that take any length at once.

    On recent GPUs torch prefers cuDNN's, which plan anew for every new length: texts come in many,
    and the plans took longer than the work.
    """
    if device.type != "cuda":
        yield
        return
    with sdpa_kernel(_STEADY):
        yield
