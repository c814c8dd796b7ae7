"""What the tests of generative search share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread: None) -> None:
    """Tiny products gain nothing from threads, and the order of sums stays the same."""
