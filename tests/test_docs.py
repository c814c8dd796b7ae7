"""Guard: generated pages are what `make docs` would write now, so no figure is out of date."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import generate  # noqa: E402


def test_generated_pages_are_current() -> None:
    stale = [
        page.name
        for page, content in generate.pages().items()
        if page.read_text(encoding="utf-8") != content
    ]
    assert not stale, f"run make docs: {stale} differ from templates, layers.toml or results"


def test_examples_of_the_filters() -> None:
    failed, attempted = doctest.testmod(generate)
    assert attempted and not failed
