"""Rules for every test: leave the process as it was, and pass on a slow machine, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# What passes here passes everywhere; `--hypothesis-profile explore` looks for new cases.
_SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same-everywhere", derandomize=True, **_SLOW)
settings.register_profile("explore", max_examples=1_000, **_SLOW)
settings.load_profile("same-everywhere")


@pytest.fixture(autouse=True)
def _default_dtype() -> Iterator[None]:
    """No thread may change torch's default dtype: it is the whole process's."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_default_dtype"):
        left = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        assert left == torch.float32, "torch's default dtype was changed"


@pytest.fixture(autouse=True, scope="session")
def _as_installed_plainly() -> Iterator[None]:
    """Let `auto` rerank only where a test names a reader, and `add` make no vectors by itself.

    The shipped reader and the embedded encoder take their time, and few tests are about them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quoth.engine.reranking._find_installed", lambda _name: None)
        patch.setattr("quoth.engine.quick_encoding.can_encode", lambda: False)
        yield
