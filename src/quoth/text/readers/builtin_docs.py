"""Docstrings of what the interpreter brings in compiled form: `len`, `str.split`, `math.sqrt`.

These have no source to parse, so exactly the modules of the standard library without a source file
are imported and inspected. Some are the compiled half of a public module and are shown under its
name, as they are known: `posix.listdir` is `os.listdir`, `_io.BytesIO` is `io.BytesIO`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from quoth.records import Document, Located, Place, Problem
from quoth.text.readers.outcomes import Outcome, describe

_PUBLIC_NAME_BY_MODULE = {
    "_bz2": "bz2",
    "_codecs": "codecs",
    "_collections": "collections",
    "_contextvars": "contextvars",
    "_csv": "csv",
    "_decimal": "decimal",
    "_functools": "functools",
    "_io": "io",
    "_locale": "locale",
    "_lzma": "lzma",
    "_queue": "queue",
    "_random": "random",
    "_signal": "signal",
    "_socket": "socket",
    "_sqlite3": "sqlite3",
    "_ssl": "ssl",
    "_struct": "struct",
    "_tracemalloc": "tracemalloc",
    "_warnings": "warnings",
    "_weakref": "weakref",
    "posix": "os",
}
_SKIPPED = frozenset(
    {"readline", "xxlimited", "xxlimited_35", "xxsubtype"}
)  # act on import, or empty
_ATTRIBUTES = (property, types.GetSetDescriptorType, types.MemberDescriptorType)


@dataclass(frozen=True, slots=True)
class _Member:
    """Something documented in a compiled module: its name there, what it is, and its docstring."""

    name: str
    kind: str
    docstring: str
    signature: str


def docstring_fields(name: str, *, docstring: str, signature: str) -> dict[str, tuple[str, ...]]:
    r"""Part a docstring into its summary and the rest; what is empty is left out.

    >>> docstring_fields("m.f", docstring="Sum up.\n\nSlowly.", signature="f(x)")
    {'name': ('m.f',), 'signature': ('f(x)',), 'summary': ('Sum up.',), 'text': ('Slowly.',)}
    """
    summary, _, rest = inspect.cleandoc(docstring).partition("\n\n")
    parts = {"name": name, "signature": signature, "summary": summary.strip(), "text": rest.strip()}
    return {field: (text,) for field, text in parts.items() if text}


def read_standard_compiled(root: str) -> Iterator[Outcome]:
    """Read the standard modules that have no source file below a root, sorted by name."""
    for name in sorted(sys.stdlib_module_names - _SKIPPED):
        is_public = name in _PUBLIC_NAME_BY_MODULE or not name.startswith("_")
        if is_public and not _has_source(root, name) and importlib.util.find_spec(name):
            yield from read_compiled(name, shown_as=_PUBLIC_NAME_BY_MODULE.get(name, name))


def read_compiled_half(public: str) -> Iterator[Outcome]:
    """Read what a public standard module has in compiled form, such as `os.listdir` for `os`."""
    for name, shown_as in _PUBLIC_NAME_BY_MODULE.items():
        if shown_as == public and importlib.util.find_spec(name):
            yield from read_compiled(name, shown_as=public)


def read_compiled(name: str, *, shown_as: str) -> Iterator[Outcome]:
    """Read the docstrings of one compiled module of the interpreter by importing it."""
    place = Place(f"python:{name}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
    except ImportError as error:
        yield Problem(place, f"cannot be imported: {describe(error)}")
        return
    prefix = "" if shown_as == "builtins" else f"{shown_as}."
    if name == shown_as and module.__doc__:
        yield _locate(_Member(name, "module", module.__doc__, ""), docid=name, module=name)
    for member in _members(module, imported_as=name):
        yield _locate(member, docid=prefix + member.name, module=shown_as)


def _has_source(root: str, name: str) -> bool:
    base = os.path.join(root, name)
    return os.path.isfile(f"{base}.py") or os.path.isdir(base)


def _locate(member: _Member, *, docid: str, module: str) -> Located:
    fields = docstring_fields(docid, docstring=member.docstring, signature=member.signature)
    document = Document(docid, fields, {"kind": member.kind, "module": module})
    return Located(document, Place(f"python:{module}"))


def _members(module: types.ModuleType, *, imported_as: str) -> Iterator[_Member]:
    """Find the public functions and classes that a module defines itself, by name."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or not _is_own(value, imported_as=imported_as):
            continue
        if inspect.isclass(value):
            yield from _class_members(name, value)
        elif inspect.isroutine(value):
            yield from _documented(name, value, kind="function")


def _is_own(value: object, *, imported_as: str) -> bool:
    """Tell what a module defines from what it imports; `builtins` owns all it has, even `open`.

    A compiled class may say that it lives in the public module.
    """
    homes = (imported_as, _PUBLIC_NAME_BY_MODULE.get(imported_as), None)
    return imported_as == "builtins" or getattr(value, "__module__", None) in homes


def _class_members(name: str, value: type) -> Iterator[_Member]:
    """Find a class and its own public methods and attributes."""
    yield from _documented(name, value, kind="class")
    for inner, member in sorted(vars(value).items()):
        is_method = inspect.isroutine(member) or isinstance(member, _ATTRIBUTES)
        if is_method and not inner.startswith("_"):
            yield from _documented(f"{name}.{inner}", member, kind="method")


def _documented(name: str, value: object, *, kind: str) -> Iterator[_Member]:
    docstring = getattr(value, "__doc__", None)
    if isinstance(docstring, str) and docstring.strip():
        signature = _signature(name, value)
        first, _, rest = docstring.partition("\n\n")
        if not signature and rest and first.startswith(f"{name.rpartition('.')[2]}("):
            signature, docstring = first.strip(), rest  # older docstrings start with the call
        yield _Member(name, kind, docstring, signature)


def _signature(name: str, value: object) -> str:
    """Write how something is called, where the interpreter knows.

    >>> _signature("len", len), _signature("dict", dict)
    ('len(obj, /)', '')
    """
    if not callable(value):
        return ""
    try:
        signature = str(inspect.signature(value))
    except (ValueError, TypeError):
        return ""
    is_stable = " at 0x" not in signature  # an address would differ from run to run
    return f"{name.rpartition('.')[2]}{signature}" if is_stable else ""
