"""Too many open files: said as what it is, not as damage, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.records import Document

LIMITED = """
import json, os, resource, sys
from quoth.engine.engine import Engine
from quoth.errors import CollectionError
from quoth.records import Document

folder, spare = sys.argv[1], int(sys.argv[2])
engine, fresh = Engine.open(folder), Engine.open(folder)
engine.search("owl")
outcomes = {}


def attempt(name, work):
    try:
        work()
        outcomes[name] = ["done", ""]
    except CollectionError as error:
        outcomes[name] = [type(error).__name__, str(error)]


before = resource.getrlimit(resource.RLIMIT_NOFILE)
used = len(os.listdir("/dev/fd")) - 1  # without the one that lists them
resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, before[1]))
attempt("add", lambda: engine.add_documents([Document("new", {"text": ("a new owl",)})]))
attempt("search", lambda: engine.search("owl"))
attempt("fresh", lambda: fresh.search("owl"))
attempt("verify", lambda: fresh.verify(repair=True))
resource.setrlimit(resource.RLIMIT_NOFILE, before)
outcomes["found"] = sorted(hit.docid for hit in engine.search("owl", k=99))
print(json.dumps(outcomes))
"""
STORED = "the documents are stored; they will be found after the next write or search"


@pytest.mark.parametrize("spare", range(13))
def test_an_engine_short_of_open_files_says_so_and_recovers(tmp_path: Path, spare: int) -> None:
    folder = tmp_path / "c.quoth"
    docids = [f"d{number}" for number in range(30)]
    with Engine.open(folder) as engine:
        engine.add_documents(Document(each, {"text": (f"owl {each}",)}) for each in docids)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder), str(spare)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    found = outcomes.pop("found")
    for name, (kind, message) in outcomes.items():
        assert kind in ("done", "OutOfFiles"), (name, kind, message)
        assert kind == "done" or "too many files are open" in message
    kind, message = outcomes["add"]
    is_stored = kind == "done" or message.startswith(STORED)
    assert found == sorted([*docids, "new"] if is_stored else docids)
    with Engine.open(folder) as engine:
        assert engine.verify().lines() == ()


def test_the_limits_of_these_tests_tell_every_case_apart(tmp_path: Path) -> None:
    """Some writes fail before they are stored, some after, and some go through."""
    seen = set()
    for spare in (0, 4, 40):
        folder = tmp_path / f"{spare}.quoth"
        with Engine.open(folder) as engine:
            engine.add_documents([Document("d0", {"text": ("owl",)})])
        command = [sys.executable, "-c", LIMITED, str(folder), str(spare)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        kind, message = json.loads(done.stdout)["add"]
        seen.add((kind, message.startswith(STORED)))
    assert seen == {("OutOfFiles", False), ("OutOfFiles", True), ("done", False)}
