"""Docstrings of installed Python packages, read from their source files without running them.

One document per module, class, function and method that has a docstring and a public name. Sources
are found by the import system for the top level only and parsed with `ast`; what has no source,
such as the built-in functions, is left to `builtin_docs`, for the standard library alone.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from quoth.records import Document, Located, Place, Problem
from quoth.text.readers.builtin_docs import (
    docstring_fields,
    read_compiled,
    read_compiled_half,
    read_standard_compiled,
)
from quoth.text.readers.outcomes import Metadata, Outcome, describe

STANDARD_LIBRARY = "stdlib"
_SKIPPED_TOPS = frozenset({"test", "idlelib", "lib2to3", "turtledemo"})
_SKIPPED_FOLDERS = frozenset({"__pycache__", "site-packages"})
_TEST_FOLDERS = frozenset({"test", "tests", "idle_test"})
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Source:
    """A source file: where it lies, how it is shown, and the module it holds."""

    path: str
    shown: str
    module: str


@dataclass(frozen=True, slots=True)
class _Named:
    """A definition with its name inside its module, and whether it stands in a class."""

    name: str
    node: _Definition
    is_in_class: bool


def read_python(name: str) -> Iterator[Outcome]:
    """Read the docstrings of a package, a module, or the whole standard library (`stdlib`)."""
    outcomes = _read_standard_library() if name == STANDARD_LIBRARY else _read_package(name)
    seen: set[str] = set()
    for outcome in outcomes:
        docid = outcome.document.docid if isinstance(outcome, Located) else None
        if docid not in seen:  # a function defined in two branches, or in C and in Python
            yield outcome
        if docid is not None:
            seen.add(docid)


def _read_standard_library() -> Iterator[Outcome]:
    """Read the sources of the public standard modules, then what is compiled."""
    root = sysconfig.get_path("stdlib")
    for name in sorted(sys.stdlib_module_names):
        if not name.startswith("_") and name not in _SKIPPED_TOPS:
            for source in _find_sources(root, name, skipped=_SKIPPED_FOLDERS | _TEST_FOLDERS):
                yield from _read_source(source)
    yield from read_standard_compiled(root)


def _read_package(name: str) -> Iterator[Outcome]:
    """Read one installed package or module, or a part of one if its name is dotted."""
    place = Place(f"python:{name}")
    top = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError) as error:
        yield Problem(place, f"cannot be found: {describe(error)}")
        return
    if spec is None:
        yield Problem(place, "no such package or module is installed here")
        return
    if spec.origin == "built-in" or (
        top in sys.stdlib_module_names and not _has_source(spec.origin)
    ):
        yield from read_compiled(top, shown_as=top)
        return
    folders = list(spec.submodule_search_locations or [])
    roots = [os.path.dirname(path) for path in folders or [_source_of(spec.origin, top)]]
    for root in roots:
        for source in _find_sources(root, name, skipped=_SKIPPED_FOLDERS):
            yield from _read_source(source)
    yield from read_compiled_half(name)


def _has_source(origin: str | None) -> bool:
    return origin is None or origin == "frozen" or origin.endswith(".py")


def _source_of(origin: str | None, top: str) -> str:
    """Tell the source file of a module; frozen ones keep theirs in the standard library."""
    if origin is None or origin == "frozen":
        return os.path.join(sysconfig.get_path("stdlib"), f"{top}.py")
    return origin


def _find_sources(root: str, name: str, *, skipped: frozenset[str]) -> Iterator[_Source]:
    """Find the source file of a module, or those of a package and all below it, sorted."""
    base = os.path.join(root, *name.split("."))
    if os.path.isfile(f"{base}.py"):
        yield _source_at(root, f"{base}.py")
    for folder, folders, files in os.walk(base):
        folders[:] = sorted(set(folders) - skipped)
        for file in sorted(files):
            if file.endswith(".py") and file != "__main__.py":
                yield _source_at(root, os.path.join(folder, file))


def _source_at(root: str, path: str) -> _Source:
    """Name the module that a file below a root holds.

    >>> _source_at("/lib", "/lib/json/__init__.py")
    _Source(path='/lib/json/__init__.py', shown='json/__init__.py', module='json')
    """
    shown = os.path.relpath(path, root).replace(os.sep, "/")
    module = shown.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return _Source(path, shown, module)


def _read_source(source: _Source) -> Iterator[Outcome]:
    """Read the documents of one source file."""
    tree = _parse(source)
    if isinstance(tree, Problem):
        yield tree
        return
    docstring = ast.get_docstring(tree)
    if docstring:
        yield _locate(source, name=source.module, kind="module", line=1, docstring=docstring)
    for named in _definitions(tree.body, prefix="", is_in_class=False):
        docstring = ast.get_docstring(named.node)
        if docstring:
            yield _locate(
                source,
                name=f"{source.module}.{named.name}",
                kind=_kind_of(named),
                line=named.node.lineno,
                docstring=docstring,
                signature=_signature(named.node),
            )


def _parse(source: _Source) -> ast.Module | Problem:
    """Parse a source file; its own warnings (odd escapes and the like) are not ours to raise."""
    try:
        with open(source.path, "rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(stream.read())
    except SyntaxError as error:
        return Problem(Place(source.shown, error.lineno), f"not valid Python: {error.msg}")
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return Problem(Place(source.shown), f"cannot be parsed as Python: {describe(error)}")


def _locate(
    source: _Source, *, name: str, kind: str, line: int, docstring: str, signature: str = ""
) -> Located:
    fields = docstring_fields(name, docstring=docstring, signature=signature)
    metadata: Metadata = {"kind": kind, "module": source.module, "path": source.shown, "line": line}
    return Located(Document(name, fields, metadata), Place(source.shown, line))


def _definitions(body: list[ast.stmt], *, prefix: str, is_in_class: bool) -> Iterator[_Named]:
    """Find public classes and functions, also under `if` and `try`, but not inside functions."""
    for node in body:
        if isinstance(node, _Definition):
            if node.name.startswith("_"):
                continue
            yield _Named(prefix + node.name, node, is_in_class)
            if isinstance(node, ast.ClassDef):
                inner = f"{prefix}{node.name}."
                yield from _definitions(node.body, prefix=inner, is_in_class=True)
        else:
            for branch in _branches(node):
                yield from _definitions(branch, prefix=prefix, is_in_class=is_in_class)


def _branches(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """List the blocks of a compound statement."""
    if isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With):
        for name in ("body", "orelse", "finalbody"):
            yield getattr(node, name, [])
        for handler in getattr(node, "handlers", []):
            yield handler.body


def _kind_of(named: _Named) -> str:
    if isinstance(named.node, ast.ClassDef):
        return "class"
    return "method" if named.is_in_class else "function"


def _signature(node: _Definition) -> str:
    """Write how a function is called, or a class by way of its `__init__`.

    >>> _signature(ast.parse("def f(a, *, b=1) -> int: ...").body[0])
    'f(a, *, b=1) -> int'
    >>> _signature(ast.parse("class C:\\n  def __init__(self, x): ...").body[0])
    'C(x)'
    """
    if isinstance(node, ast.ClassDef):
        makers = (item for item in node.body if isinstance(item, ast.FunctionDef))
        maker = next((item for item in makers if item.name == "__init__"), None)
        return f"{node.name}({ast.unparse(_without_self(maker.args))})" if maker else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def _without_self(arguments: ast.arguments) -> ast.arguments:
    """Leave out the first argument."""
    rest = copy.copy(arguments)
    if rest.posonlyargs:
        rest.posonlyargs = rest.posonlyargs[1:]
    else:
        rest.args = rest.args[1:]
    return rest
