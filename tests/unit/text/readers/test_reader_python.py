"""Docstrings of Python packages."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from quoth.text.readers.builtin_docs import read_compiled

SOURCE = '''"""A module.

With more to say."""
import sys
assert False, "this module must not be run"

def public(a, /, b: int = 1, *args, c, **more) -> str:
    """Do it."""
    def inner():
        """Not documented."""

def _private():
    """Hidden."""

def bare(): ...

async def later():
    """Wait.

    Long.
    """

class Thing(object):
    """A thing."""
    def __init__(self, size=1):
        """Make it."""
    @property
    def size(self):
        r"""How big\\d."""
    class Inner:
        def deep(self):
            """Deep."""

if sys.platform == "nowhere":
    def public():
        """The other branch."""
else:
    try:
        def branch():
            """In a branch."""
    except ImportError:
        def handler():
            """In a handler."""
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "quoth_sample"
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "__main__.py").write_text('"""Run."""')
    (folder / "sub" / "__init__.py").write_text("")
    (folder / "sub" / "part.py").write_text('def f():\n    "\\d F."\n')
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_package(read, package):
    reading = read("python:quoth_sample")
    assert reading.problems == []
    assert reading.docids == [
        "quoth_sample",
        "quoth_sample.public",
        "quoth_sample.later",
        "quoth_sample.Thing",
        "quoth_sample.Thing.size",
        "quoth_sample.Thing.Inner.deep",
        "quoth_sample.branch",
        "quoth_sample.handler",
        "quoth_sample.sub.part.f",
    ]
    module, public, later, thing, size, *_, part = reading.documents
    assert module.fields == {
        "name": ("quoth_sample",),
        "summary": ("A module.",),
        "text": ("With more to say.",),
    }
    assert module.metadata == {
        "kind": "module",
        "module": "quoth_sample",
        "path": "quoth_sample/__init__.py",
        "line": 1,
    }
    assert public.fields == {
        "name": ("quoth_sample.public",),
        "signature": ("public(a, /, b: int=1, *args, c, **more) -> str",),
        "summary": ("Do it.",),
    }
    assert (public.metadata["kind"], public.metadata["line"]) == ("function", 7)
    assert later.fields["text"] == ("Long.",)
    assert (thing.metadata["kind"], thing.fields["signature"]) == ("class", ("Thing(size=1)",))
    assert (size.metadata["kind"], size.fields["summary"]) == ("method", ("How big\\d.",))
    assert part.metadata["path"] == "quoth_sample/sub/part.py"
    assert "quoth_sample" not in sys.modules


def test_part_of_a_package(read, package):
    assert read("python:quoth_sample.sub").docids == ["quoth_sample.sub.part.f"]
    assert read("python:quoth_sample.sub.part").docids == ["quoth_sample.sub.part.f"]


def test_file_that_does_not_parse(read, package):
    (package / "bad.py").write_text("x = 1\ndef (:\n")
    (package / "nul.py").write_bytes(b"\0")
    (package / "latin.py").write_bytes(b'"""caf\xe9"""')
    reading = read("python:quoth_sample")
    assert len(reading.located) == 9
    assert reading.places[0] == "quoth_sample/bad.py:2"
    assert [place.partition(":")[0] for place in reading.places] == [
        "quoth_sample/bad.py",
        "quoth_sample/latin.py",
        "quoth_sample/nul.py",
    ]


@pytest.mark.parametrize(
    "source", ["python:no_such_package", "python:", "python:..", "python:json.nowhere"]
)
def test_nothing_is_a_problem(read, source):
    assert read(source).problem.startswith(source)


def test_json(read):
    reading = read("python:json")
    dumps = next(document for document in reading.documents if document.docid == "json.dumps")
    assert dumps.fields["summary"] == ("Serialize ``obj`` to a JSON formatted ``str``.",)
    assert dumps.fields["signature"][0].startswith("dumps(obj, *, skipkeys=False")
    assert dumps.metadata["path"] == "json/__init__.py"
    assert {"json", "json.loads", "json.decoder.JSONDecoder.decode"} <= set(reading.docids)
    assert reading.problems == []


def test_compiled_modules(read):
    assert "math.sqrt" in read("python:math").docids
    assert {"os.makedirs", "os.listdir"} <= set(read("python:os").docids)


def test_standard_library(read):
    reading = read("python:stdlib")
    assert reading.problems == []
    assert len(reading.located) > 5000
    assert len(set(reading.docids)) == len(reading.docids)
    by_docid = {document.docid: document for document in reading.documents}
    for docid in ("len", "open", "str.split", "json.dumps", "pathlib.Path.glob", "os.listdir"):
        assert docid in by_docid
    for docid in ("math.sqrt", "itertools.chain", "collections.deque", "time.sleep", "sys"):
        assert docid in by_docid
    assert by_docid["str.split"].fields["signature"] == ("split(self, /, sep=None, maxsplit=-1)",)
    assert by_docid["str.split"].metadata == {"kind": "method", "module": "builtins"}
    tops = {docid.partition(".")[0] for docid in reading.docids}
    assert not tops & {"test", "idlelib", "lib2to3", "turtledemo"}
    assert not any(name.startswith("_") for name in tops)
    assert "antigravity" not in sys.modules


def test_the_same_twice(read):
    assert read("python:email").located == read("python:email").located
    assert read("python:time").located == read("python:time").located


@pytest.mark.parametrize(
    ("compiled", "public"), [("posix", "os"), ("_io", "io"), ("_struct", "struct")]
)
def test_compiled_halves_are_shown_under_names_that_exist(compiled, public):
    module = importlib.import_module(public)
    for outcome in read_compiled(compiled, shown_as=public):
        value: object = module
        for name in outcome.document.docid.split(".")[1:]:
            value = getattr(value, name)


def test_nothing_is_read_from_the_working_folder(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert os.listdir() == []
    assert read("python:json").located[0].place.path == "json/__init__.py"
