"""Which machines can compute in bf16 at all."""

from __future__ import annotations

import platform

import pytest

from quoth.models.processor import processor_flags

_LACKS_BF16 = platform.machine() in ("aarch64", "arm64") and "bf16" not in processor_flags()

needs_bf16 = pytest.mark.skipif(
    # torch would warn, and compute by other kernels from then on in the whole process.
    _LACKS_BF16,
    reason="torch has no products in bf16 for ARM processors without instructions for them",
)
