"""Quoth: search your own documents without a single label, and get answers in their own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quoth.client.client import Client as Client
    from quoth.engine.engine import Engine as Engine

__version__ = "0.1.0"
__all__ = ["Client", "Engine", "__version__"]


def __getattr__(name: str) -> object:
    """Import `Engine` and `Client` on first use, so that `import quoth` costs nothing."""
    if name == "Engine":
        from quoth.engine.engine import Engine

        return Engine
    if name == "Client":
        from quoth.client.client import Client

        return Client
    raise AttributeError(f"module 'quoth' has no attribute {name!r}")
