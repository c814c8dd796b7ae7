"""What every test must leave behind as it found it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _default_dtype() -> Iterator[None]:
    """No thread may change torch's default dtype: it is the whole process's."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_default_dtype"):
        left = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        assert left == torch.float32, "torch's default dtype was changed"
