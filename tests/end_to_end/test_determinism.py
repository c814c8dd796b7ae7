"""The same inputs give the same bytes, whatever the load and the number of threads.

What differs is listed here, and nothing else does: tantivy names its segments at random, so names
of files differ, and so do the three lists that hold these names. Their contents do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import built_again
import pytest
import trained_again
from learning_worlds import make_collection, make_documents

from quoth.jobs.job_folder import MODEL_REPORT_FILE

NAMING = ("meta.json", ".managed.json", "artifact.json")
"""Files of the lexical folder that name segments."""

LIBRARIES = ("OMP", "MKL", "OPENBLAS", "RAYON", "NUMBA")
"""What their numbers of threads are named by: torch, FAISS and ONNX Runtime go by the first."""


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    """Keep the processors busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _at in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def _build(folder: Path, *, threads: int, busy: int = 0) -> None:
    """Build in a process of its own, whose processors are kept busy once all is imported."""
    command = [sys.executable, built_again.__file__, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=_limited(threads), text=True, **pipes) as process:
        assert process.stdout is not None
        is_ready = process.stdout.readline() == "ready\n"
        with _busy_loops(busy):
            _out, problems = process.communicate("begin\n")
    assert process.returncode == 0 and is_ready, problems


def _train(folder: Path, *, threads: int) -> None:
    command = [sys.executable, trained_again.__file__, str(folder)]
    done = subprocess.run(
        command, env=_limited(threads), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _limited(threads: int) -> dict[str, str]:
    """Return an environment in which every library has so many threads."""
    return {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in LIBRARIES}}


def _contents(folder: Path) -> dict[str, Any]:
    """Read every file, with segments named by their order."""
    (meta,) = folder.rglob("meta.json")
    segments = [each["segment_id"] for each in json.loads(meta.read_text())["segments"]]
    names = {name.replace("-", ""): f"segment-{at}" for at, name in enumerate(segments)}
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".lock":
            name = path.relative_to(folder).as_posix()
            data: Any = path.read_bytes()
            if path.name in NAMING and "lexical" in path.parts:
                data = _renamed(json.loads(path.read_text()), names)
            found[_rename(name, names)] = data
    return found


def _rename(text: str, names: dict[str, str]) -> str:
    for name, place in names.items():
        dashed = "-".join(re.fullmatch(r"(.{8})(.{4})(.{4})(.{4})(.{12})", name).groups())  # type: ignore[union-attr]
        text = text.replace(name, place).replace(dashed, place)
    return text


def _renamed(content: Any, names: dict[str, str]) -> Any:
    """Name segments by their order; checksums of what holds names are left out."""
    if isinstance(content, list):
        return sorted((_renamed(each, names) for each in content), key=str)
    if not isinstance(content, dict):
        return _rename(content, names) if isinstance(content, str) else content
    kept = {_rename(key, names): value for key, value in content.items() if key != "seal"}
    return {
        key: value["size"] if key.endswith("/meta.json") else _renamed(value, names)
        for key, value in kept.items()
    }


def test_two_builds_are_the_same_beside_busy_loops_and_with_more_threads(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"  # the same name, as settings hold it
    _build(folder, threads=1)
    first = _contents(folder)
    folder.rename(tmp_path / "first")
    _build(folder, threads=4, busy=2)
    second = _contents(folder)
    assert sorted(first) == sorted(second)
    differing = [name for name in first if first[name] != second[name]]
    assert differing == []
    assert {"collection.db", "lexical/statistics.db", "lexical/passages.db"} <= set(first)
    assert any(name.startswith("dense/") for name in first), "vectors are compared, too"


TRAINED = ("birds.quoth/models", "birds.quoth/generative", "dynamic-lm", "glow", "phrases")
"""Folders of what training makes: an encoder, PIXAR with its phrases, shortlist and trie, a
language model that quotes, a weighted encoder, and a vocabulary.
"""

TIMED = ("report.json", MODEL_REPORT_FILE)
"""Files that say how long something took."""


def _trained(folder: Path) -> dict[str, bytes]:
    """Read every file of what was trained, but what says how long that took."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for name in TRAINED
        for path in sorted((folder / name).rglob("*"))
        if path.is_file() and path.name not in TIMED
    }


@pytest.mark.slow
def test_two_trainings_are_the_same_beside_busy_loops(tmp_path: Path) -> None:
    """With as many threads: torch adds gradients up in other parts with more of them."""
    folder = tmp_path / "w"
    _train(folder, threads=2)
    first = _trained(folder)
    folder.rename(tmp_path / "first")
    with _busy_loops(2):
        _train(folder, threads=2)
    second = _trained(folder)
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
    for name in TRAINED:
        assert any(each.startswith(name) for each in first), name


@pytest.mark.slow
def test_phrases_are_the_same_with_any_number_of_threads(tmp_path: Path) -> None:
    """They are counted in whole numbers, which add up alike however they are shared out."""
    collection = make_collection(tmp_path / "birds.quoth", make_documents(30))
    made = []
    for threads in (1, 2):
        out = tmp_path / str(threads)
        words = ["phrases", "build", str(collection), "--size", "400", "--out", str(out)]
        command = [sys.executable, "-c", "from quoth.cli.main import main; main()", *words]
        subprocess.run(command, env=_limited(threads), check=True, capture_output=True)
        made.append({path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert made[0] == made[1] != {}
