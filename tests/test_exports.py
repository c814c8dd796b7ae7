"""Guard: what is public is documented, `__init__` files are empty, files stay short."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import quoth

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "quoth"
MODULES = sorted(PACKAGE.rglob("*.py"))
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def _ids(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_the_package_exports_exactly_what_it_promises() -> None:
    assert quoth.__all__ == ["Client", "Engine", "__version__"]
    assert all(getattr(quoth, name) for name in quoth.__all__)
    with pytest.raises(AttributeError, match="no attribute 'index_of'"):
        _ = quoth.index_of


@pytest.mark.parametrize(
    "path", [each for each in MODULES if each.name == "__init__.py"][1:], ids=_ids
)
def test_init_files_hold_one_docstring(path: Path) -> None:
    body = ast.parse(path.read_text()).body
    assert len(body) == 1 and ast.get_docstring(ast.Module(body, [])), f"{path} holds code"


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_public_names_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    missing = [] if ast.get_docstring(tree) else ["the module"]
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTION, ast.ClassDef)) and not node.name.startswith("_"):
            nested = any(
                node in ast.walk(outer)
                for outer in ast.walk(tree)
                if isinstance(outer, FUNCTION) and outer is not node
            )
            private = any(
                node in outer.body
                for outer in ast.walk(tree)
                if isinstance(outer, ast.ClassDef) and outer.name.startswith("_")
            )
            if not nested and not private and not ast.get_docstring(node):
                missing.append(node.name)
    assert not missing


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400, f"{path} is too long: split it"
    assert path.stem not in {"utils", "helpers", "common", "misc"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTION):
            assert (node.end_lineno or 0) - node.lineno <= 60, f"{path}:{node.lineno} {node.name}"


def test_version_and_changelog_agree() -> None:
    newest = re.search(
        r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert newest and newest[1] == quoth.__version__
    assert cited and cited[1] == quoth.__version__
