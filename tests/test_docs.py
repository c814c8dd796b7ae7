"""Guard: generated pages are what `make docs` would write now, so no figure is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from generate import pages  # noqa: E402


def test_generated_pages_are_current() -> None:
    stale = [page.name for page, content in pages().items() if page.read_text() != content]
    assert not stale, f"run make docs: {stale} differ from templates, layers.toml or results"
