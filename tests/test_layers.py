"""Guard: imports point only up the list of rooms, and nothing light pulls in anything heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "quoth"
LAYERS = tomllib.loads((ROOT / "docs" / "layers.toml").read_text())
MODULES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every import of our own package, those inside functions and TYPE_CHECKING included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.lineno, node.module or ""


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def _allowed(room: str) -> set[str]:
    named = LAYERS["rooms"][room]["may_import"]
    base = set(LAYERS["base"]) if "base" in named else set()
    return base | (set(named) - {"base"}) | {room}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_point_up_the_list_of_rooms(path: Path) -> None:
    room = _room(_name(path))
    if room == "":
        return  # the package itself: `Engine` and `Client` on demand
    allowed = set(LAYERS["base"]) if room in LAYERS["base"] else _allowed(room)
    wrong = [
        f"line {line}: {module}"
        for line, module in _imports(path)
        if module.startswith("quoth.") and _room(module) not in allowed
    ]
    assert not wrong, f"{_name(path)} ({room}) may import {sorted(allowed)}: {wrong}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_name_the_defining_module(path: Path) -> None:
    packages = {_name(each) for each in MODULES if each.name == "__init__.py"} - {"quoth"}
    wrong = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in packages:
            modules = {_name(each) for each in MODULES}
            wrong += [a.name for a in node.names if f"{node.module}.{a.name}" not in modules]
    assert not wrong, f"{_name(path)} imports {wrong} from a package's __init__"


@pytest.mark.parametrize("room", list(LAYERS["rooms"]))
def test_rooms_below_are_never_imported_from_above(room: str) -> None:
    order = list(LAYERS["rooms"])
    assert all(
        order.index(each) < order.index(room) for each in _allowed(room) - {room} if each in order
    )


@pytest.mark.parametrize(
    "module",
    [
        "quoth",
        "quoth.client.client",
        "quoth.cli.main",
        "quoth.engine.engine",
        "quoth.search.lexical.searcher",
        "quoth.evaluation.measures",
    ],
)
def test_light_modules_do_not_import_torch(module: str) -> None:
    heavy = {"torch", "transformers", "numba"}
    code = f"import {module}, sys; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import quoth, sys; print([m for m in sys.modules if m.startswith('quoth')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['quoth']"
