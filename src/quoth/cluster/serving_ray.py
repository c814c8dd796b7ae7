"""Importing Ray Serve, whose own modules warn of what they use themselves."""

from __future__ import annotations

import warnings
from types import ModuleType

from quoth.cluster.connecting import load_ray
from quoth.errors import MissingExtra


def load_serve() -> ModuleType:
    """Import Ray Serve, or say what to install."""
    load_ray()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray.serve
            import ray.serve.exceptions
    except ImportError as error:
        raise MissingExtra(
            f'serving from a cluster needs {error.name}; run pip install "quoth[cluster]"'
        ) from error
    module: ModuleType = ray.serve
    return module
