"""An option for the tests of the page."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests of the page take the pictures that the documentation shows."""
    parser.addoption(
        "--take-screenshots", action="store_true", help="write docs/screenshots/*.png anew"
    )
