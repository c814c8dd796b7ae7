"""Whoever may only read a collection can search and check it; writing is refused, with a reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import damaging
import pytest
import reading_user

from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.shards.split_and_merge import split_collection
from quoth.text.passages import PassageConfig, cut_document

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="rights are those of POSIX")
CUT = partial(cut_document, config=PassageConfig())
LATE = Document("late", {"text": ("a late owl",)})


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a collection in a place that every user can reach."""
    place = Path(tempfile.mkdtemp(prefix="quoth-read-only-"))
    place.chmod(0o755)
    damaging.Sample(place / "c.quoth")
    yield place / "c.quoth"
    _may_write(place)
    shutil.rmtree(place)


def _may_write(place: Path) -> None:
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


class Reader:
    """A process of somebody who may only read."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, what: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "it ended"
        return json.loads(line)

    def refusal(self, what: str) -> str:
        is_good, answer = self.ask(what)
        assert not is_good, answer
        return str(answer)


@contextmanager
def _reading(folder: Path) -> Iterator[Reader]:
    command = [sys.executable, reading_user.__file__, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Reader(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(300) == 0


def test_everything_that_reads_works_and_everything_that_writes_says_why_not(folder: Path) -> None:
    with Engine.open(folder) as engine:
        expected = sorted(engine.docids())
    before = {path: path.read_bytes() for path in damaging.data_files(folder)}
    with _reading(folder) as reader:
        assert reader.ask("search") == [True, expected]
        assert reader.ask("status") == [True, len(expected)]
        assert reader.ask("verify") == [True, []]
        for what in ("add", "remove", "repair"):
            assert "may not be written to by this user" in reader.refusal(what)
        assert reader.ask("search") == [True, expected]
    assert {path: path.read_bytes() for path in damaging.data_files(folder)} == before


def test_no_file_is_kept_from_other_users(folder: Path) -> None:
    """tantivy writes its lists for its own user alone."""
    usual = (folder / "collection.db").stat().st_mode & 0o777
    every = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name: path.stat().st_mode & 0o777 for path in every} == {
        path.name: usual for path in every
    }


def test_shards_are_searched_and_checked_by_whoever_may_only_read(folder: Path) -> None:
    with Engine.open(folder) as engine:
        expected = sorted(engine.docids())
    split_collection(folder, folder.with_name("c.shards"), count=2)
    with _reading(folder.with_name("c.shards")) as reader:
        assert reader.ask("search") == [True, expected]
        assert reader.ask("verify") == [True, []]
        assert "may not be written to by this user" in reader.refusal("add")


def test_a_reader_sees_what_the_owner_writes_later(folder: Path) -> None:
    with _reading(folder) as reader:
        _good, before = reader.ask("search")
        _may_write(folder)
        with Engine.open(folder) as owner:
            owner.add_documents([LATE])
            owner.remove(["d1"])
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        assert reader.ask("search") == [True, sorted({*before, "late"} - {"d1"})]
        assert reader.ask("verify") == [True, []]


def test_damage_is_found_by_whoever_may_only_read(folder: Path) -> None:
    path = next((folder / "lexical").rglob("*.idx"))
    damaging.truncate(path)
    with _reading(folder) as reader:
        assert str(path) in reader.refusal("search")
        is_good, lines = reader.ask("verify")
        assert is_good and any(str(path) in line for line in lines)


def test_an_index_that_is_behind_is_said_to_be_and_by_whom_it_is_mended(folder: Path) -> None:
    with closing(Store.create(folder)) as store:
        store.add([LATE], cut=CUT)  # as a writer does that is killed then
    with _reading(folder) as reader:
        assert "quoth verify" in reader.refusal("search")
        is_good, lines = reader.ask("verify")
        assert is_good and "behind the documents by 1 change" in lines[0]


def test_a_log_that_was_not_written_back_asks_for_the_owner(folder: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom quoth.engine.engine import Engine\n"
        "from quoth.records import Document\nengine = Engine.open(Path(sys.argv[1]))\n"
        "with engine.writing() as (store, _config):\n"
        "    store.set_setting('note', 1)\n    os._exit(137)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(folder)]).returncode == 137
    assert (folder / "collection.db-wal").stat().st_size
    os.unlink(folder / "collection.db-shm")
    with _reading(folder) as reader:
        assert "was not closed by whoever wrote to it last" in reader.refusal("search")
