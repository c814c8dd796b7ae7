"""Guard: generated pages are what `make docs` would write now, so no figure is out of date."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import generate  # noqa: E402
from benchmarks.cluster import capacity  # noqa: E402


def test_generated_pages_are_current() -> None:
    stale = [
        page.name
        for page, content in generate.pages().items()
        if page.read_text(encoding="utf-8") != content
    ]
    assert not stale, f"run make docs: {stale} differ from templates, layers.toml or results"


@pytest.mark.parametrize("module", [generate, capacity], ids=lambda module: module.__name__)
def test_examples_of_what_pages_are_made_with(module: object) -> None:
    failed, attempted = doctest.testmod(module)  # type: ignore[arg-type]
    assert attempted and not failed
