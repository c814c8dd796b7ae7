"""Guard: what is public is documented, `__init__` files are empty, files stay short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import quoth

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "quoth"
MODULES = sorted(PACKAGE.rglob("*.py"))
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FUNCTION | ast.ClassDef


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _public(node: ast.AST, *, in_private_class: bool = False) -> Iterator[Definition]:
    """Yield what is defined below a node and has a public name, inside functions excepted."""
    for child in ast.iter_child_nodes(node):
        is_private = isinstance(child, Definition) and child.name.startswith("_")
        if isinstance(child, Definition) and not is_private and not in_private_class:
            yield child
        if not isinstance(child, FUNCTION):
            hides = is_private and isinstance(child, ast.ClassDef)
            yield from _public(child, in_private_class=hides)


def test_the_package_exports_exactly_what_it_promises() -> None:
    assert quoth.__all__ == ["Client", "Engine", "__version__"]
    assert all(getattr(quoth, name) for name in quoth.__all__)
    with pytest.raises(AttributeError, match="no attribute 'index_of'"):
        _ = quoth.index_of


def test_init_files_hold_one_docstring() -> None:
    found = [each for each in MODULES if each.name == "__init__.py"][1:]
    assert found
    for path in found:
        body = _parse(path).body
        assert len(body) == 1 and ast.get_docstring(ast.Module(body, [])), f"{path} holds code"


def test_public_names_have_docstrings() -> None:
    missing = []
    for path in MODULES:
        nodes = (_parse(path), *_public(_parse(path)))
        without = [node for node in nodes if not ast.get_docstring(node)]
        missing += [f"{path}: {getattr(node, 'name', 'the module')}" for node in without]
    assert missing == []


def test_names_that_need_a_docstring_are_found() -> None:
    code = """
class Shown:
    def shown_too(self):
        def nested(): ...
    def _hidden(self): ...
class _Hidden:
    def hidden_too(self): ...
"""
    assert [node.name for node in _public(ast.parse(code))] == ["Shown", "shown_too"]


def test_files_and_functions_stay_short() -> None:
    for path in MODULES:
        assert path.read_text().count("\n") <= 400, f"{path} is too long: split it"
        assert path.stem not in {"utils", "helpers", "common", "misc"}
        for node in ast.walk(_parse(path)):
            if isinstance(node, FUNCTION):
                length = (node.end_lineno or 0) - node.lineno
                assert length <= 60, f"{path}:{node.lineno} {node.name}"


def test_version_and_changelog_agree() -> None:
    newest = re.search(
        r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert newest and newest[1] == quoth.__version__
    assert cited and cited[1] == quoth.__version__
