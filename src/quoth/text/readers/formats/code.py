"""Source code: Python function by function, other languages whole; lines are those of the file.

A Python file becomes a document for the module and one for each class, function and method, whose
docid is path:name. A file that Python cannot parse is read whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from quoth.records import Document, Located, Place, Problem
from quoth.text.readers.decoding import decode_whole
from quoth.text.readers.outcomes import Metadata, Outcome, Whole, file_document

_DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def read_code(whole: Whole) -> Iterator[Outcome]:
    """Read a source file of any language as one document."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
    else:
        yield file_document(whole, format="code", text=text, title=whole.path.rpartition("/")[2])


def read_python_code(whole: Whole) -> Iterator[Outcome]:
    """Read a Python file function by function."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield from read_code(whole)
        return
    lines = text.splitlines(keepends=True)
    names: set[str] = set()
    taken: set[int] = set()
    for name, node in _definitions(tree, ""):
        if name not in names:
            names.add(name)
            yield _definition(whole, name, node, lines, taken)
    rest = "".join(line for at, line in enumerate(lines, start=1) if at not in taken)
    if rest.strip():
        title = whole.path.rpartition("/")[2]
        yield file_document(whole, format="python", text=rest, title=title)


def _definition(
    whole: Whole, name: str, node: _DEFINITION, lines: list[str], taken: set[int]
) -> Located:
    """Make the document of a definition, without those inside a class, which have their own."""
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    last = node.end_lineno or node.lineno
    inner: set[int] = set()
    if isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, _DEFINITION):
                start = min([each.lineno, *(mark.lineno for mark in each.decorator_list)])
                inner |= set(range(start, (each.end_lineno or each.lineno) + 1))
    taken |= set(range(first, last + 1))
    own = "".join(lines[at - 1] for at in range(first, last + 1) if at not in inner)
    kind = "class" if isinstance(node, ast.ClassDef) else "function"
    about: Metadata = {"path": whole.path, "format": "python", "kind": kind, "line": first}
    fields = {"title": (name,), "text": (own.strip("\r\n"),)}
    return Located(Document(f"{whole.path}:{name}", fields, about), Place(whole.path, first))


def _definitions(parent: ast.AST, prefix: str) -> Iterator[tuple[str, _DEFINITION]]:
    """List classes, functions and methods by their qualified names; functions keep theirs."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, _DEFINITION):
            name = f"{prefix}{node.name}"
            yield name, node
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node, f"{name}.")
