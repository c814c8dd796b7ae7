"""Guard: imports point only up the list of rooms and never in a circle; nothing light is heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "quoth"
LAYERS = tomllib.loads((ROOT / "docs" / "layers.toml").read_text())
ROOMS, FOLDERS = LAYERS["rooms"], LAYERS["folders"]
MOST_MODULES = 20


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def _statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """List the imports of a file, those inside functions and for types included."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the modules of ours that a file imports."""
    for node in _statements(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in MODULES)
        else:
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found = name if name in MODULES else node.module or ""
                if found in MODULES:
                    yield node.lineno, found


def _place(module: str) -> str:
    """Name the folder that a module stands in; modules of the base are their own.

    >>> _place("quoth.search.lexical.score"), _place("quoth.records")
    ('search/lexical', 'records')
    """
    parts = module.split(".")[1:]
    return "/".join(parts if module in MODULES and len(parts) < 2 else parts[:-1])


def _room(place: str) -> str:
    return place.partition("/")[0]


def _named(place: str) -> set[str]:
    """List what a folder's entry says it may import, *base* spelt out."""
    named = set((FOLDERS if "/" in place else ROOMS)[place]["may_import"])
    return named | set(LAYERS["base"]) if "base" in named else named


def _may_import(place: str, other: str) -> bool:
    """Whether modules of a folder may import those of another: its own room's by folder."""
    if place in LAYERS["base"]:
        return other in LAYERS["base"]
    target = other if _room(other) == _room(place) else _room(other)
    return target == place or target in _named(place)


def test_imports_point_up_the_list_of_rooms() -> None:
    wrong = []
    for module, path in MODULES.items():
        if path.name != "__init__.py":  # those hold one docstring, as test_exports.py says
            place = _place(module)
            wrong += [
                f"{module} ({place}), line {line}: {other}"
                for line, other in _imports(path)
                if other != "quoth" and not _may_import(place, _place(other))
            ]
    assert wrong == [], "see docs/layers.toml"


def test_imports_name_the_defining_module() -> None:
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"} - {"quoth"}
    wrong = [
        f"{module} imports {alias.name} from the __init__ of {node.module}"
        for module, path in MODULES.items()
        for node in _statements(path)
        if isinstance(node, ast.ImportFrom) and node.module in packages
        for alias in node.names
        if f"{node.module}.{alias.name}" not in MODULES
    ]
    assert wrong == []


def test_rooms_below_are_never_imported_from_above() -> None:
    order = list(ROOMS)
    for room in ROOMS:
        above = set(order[: order.index(room)]) | {"base", *LAYERS["base"]}
        inner = {each for each in FOLDERS if _room(each) == room}
        assert set(ROOMS[room]["may_import"]) <= above | inner, room


def test_folders_import_what_their_room_may_import() -> None:
    for folder in FOLDERS:
        room = _room(folder)
        inner = {room, *(each for each in FOLDERS if _room(each) == room)} - {folder}
        assert set(FOLDERS[folder]["may_import"]) <= set(ROOMS[room]["may_import"]) | inner, folder


def test_every_folder_is_listed_and_says_what_it_is_for() -> None:
    there = {path.parent.relative_to(PACKAGE).as_posix() for path in MODULES.values()} - {"."}
    assert there == ROOMS.keys() | FOLDERS.keys()
    assert all(each["says"] for each in (*ROOMS.values(), *FOLDERS.values()))


def test_folders_stay_small() -> None:
    counts = Counter(
        path.parent.relative_to(PACKAGE).as_posix()
        for path in MODULES.values()
        if path.name != "__init__.py"
    )
    assert {name: count for name, count in counts.items() if count > MOST_MODULES} == {}


# Circles ---------------------------------------------------------------------------------------


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Find modules that import each other in a circle, the first one again at the end."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: {other for _, other in _imports(path)} for name, path in MODULES.items()}
    assert sum(map(len, graph.values())) > len(graph), "imports are not found"
    assert not (found := _circle(graph)), " imports ".join(reversed(found))


def test_a_circle_is_found() -> None:
    assert _circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == {"b", "c"}


# Weight ----------------------------------------------------------------------------------------


LIGHT = (
    "quoth",
    "quoth.cli.main",
    "quoth.client.client",
    "quoth.engine.engine",
    "quoth.answer.reading_answerer",
    "quoth.evaluation.measures",
    "quoth.models.glow.plain",
    "quoth.models.onnx_bert",
    "quoth.models.reader.reader",
    "quoth.search.dense.searcher",
    "quoth.search.lexical.searcher",
    "quoth.settings.config",
    "quoth.shards.opening",
)


def test_light_modules_do_not_import_torch() -> None:
    code = """
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
    heavy = {"torch", "transformers", "numba"} & set(sys.modules)
    assert not heavy, f"{module} imports {heavy}"
"""
    command = [sys.executable, "-c", code, *LIGHT]
    found = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import quoth, sys; print([m for m in sys.modules if m.startswith('quoth')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['quoth']"
