"""The examples in the benchmarks' docstrings, which pytest does not collect by itself."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    if ".cache" not in path.parts and ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_hold(module: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert attempted and not failed
