"""Adding many documents gives the same collection whether others take part or not."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth import portions
from quoth.engine import adding
from quoth.engine.engine import Engine
from quoth.errors import CorpusError
from quoth.records import Document
from quoth.search.lexical import analysing

COUNT = 6_000
FILES = ("collection.db", "lexical/statistics.db", "lexical/passages.db")


def _documents(*, bad: int = -1) -> Iterator[Document]:
    chance = random.Random(5)
    for number in range(COUNT):
        words = " ".join(chance.choices(["owl", "barn", "Eule", "night", f"w{number}"], k=20))
        text = "" if number == bad else words
        yield Document(f"d{number}", {"text": (text,), "title": (f"T {number}",)[: number % 2]})


def _settings(workers: int) -> dict[str, dict[str, int]]:
    return {"collection": {"workers": workers, "batch_documents": 500}}


def _digests(folder: Path) -> dict[str, str]:
    found = {}
    for name in FILES:
        connection = sqlite3.connect(folder / name)
        lines = "\n".join(connection.iterdump())
        connection.close()
        found[name] = hashlib.sha256(lines.encode()).hexdigest()
    return found


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes take part on a machine with one core, too."""
    monkeypatch.setattr(portions, "_count_cores", lambda: 8)


@pytest.fixture(params=["threads", "processes"])
def others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let either threads or processes take part."""
    if request.param == "processes":
        monkeypatch.setattr(adding, "is_compiled", lambda: False)
        monkeypatch.setattr(analysing, "is_analysed_at_once", lambda _config: False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("alone") / "c.quoth"
    with Engine.open(folder, settings=(_settings(0),)) as engine:
        engine.add_documents(_documents())
    return _digests(folder)


@pytest.mark.usefixtures("many_cores", "others")
@pytest.mark.parametrize("workers", [1, 3])
def test_tables_are_the_same_row_by_row(
    tmp_path: Path, alone: dict[str, str], workers: int
) -> None:
    folder = tmp_path / "c.quoth"
    with Engine.open(folder, settings=(_settings(workers),)) as engine:
        engine.add_documents(_documents())
        assert engine.verify().lines() == ()
        assert {hit.docid for hit in engine.search("w17 w4321", k=2)} == {"d17", "d4321"}
    assert _digests(folder) == alone


@pytest.mark.usefixtures("many_cores", "others")
def test_an_error_names_the_document_and_keeps_what_came_before(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "c.quoth", settings=(_settings(2),)) as engine:
        with pytest.raises(CorpusError, match="'d5100' has no text"):
            engine.add_documents(_documents(bad=5_100))
        assert len(engine.docids()) == 5_000
        assert [hit.docid for hit in engine.search("w4321", k=1)] == ["d4321"]


_ADD = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.path[:] = {path!r}
from pathlib import Path
from quoth import portions
from quoth.engine.engine import Engine
from quoth.portion_workers import ProcessCrew
import test_workers as own
from quoth.engine import adding
adding.is_compiled = lambda: False  # processes take part then
portions._count_cores = lambda: 8
start = ProcessCrew._start_process
def tell(crew):
    start(crew)
    print(crew._processes[-1][0].pid, flush=True)
ProcessCrew._start_process = tell
def documents():
    for number, document in enumerate(own._documents()):
        if number == own.COUNT - 100:
            time.sleep(3600)  # it is stopped before it has everything
        yield document
with Engine.open(Path({folder!r}), settings=(own._settings(2),)) as engine:
    engine.add_documents(documents())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_writer_leaves_a_sound_collection_and_no_process(
    tmp_path: Path, how: signal.Signals
) -> None:
    folder = tmp_path / "c.quoth"
    path = [str(Path(__file__).parent), *sys.path]
    code = _ADD.format(path=path, folder=str(folder))
    writer = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert writer.stdout is not None
    others = [int(writer.stdout.readline()) for _each in range(2)]
    writer.send_signal(how)
    writer.stdout.close()
    assert writer.wait() != 0
    for pid in others:
        _wait_until_gone(pid)
    with Engine.open(folder, settings=(_settings(0),)) as engine:
        stored = engine.docids()
        assert stored == tuple(f"d{number}" for number in range(len(stored))) and stored
        engine.add_documents(_documents())
        assert engine.verify().lines() == () and len(engine.docids()) == COUNT


def _wait_until_gone(pid: int) -> None:
    for _attempt in range(6_000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or " Z " in stat.read_text():
            return
        time.sleep(0.01)
    pytest.fail(f"process {pid} is still there after a minute")
