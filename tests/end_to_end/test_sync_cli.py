"""`quoth sync`, `quoth add --sync` and `quoth watch` as a user meets them."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import Quoth, make_runner

from quoth import Engine

PATIENCE = 180.0  # seconds; only a failure waits so long


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    for number in range(12):
        (tmp_path / "notes" / f"{number}.md").write_text(f"# Note {number}\nAbout owl {number}.")
    return tmp_path / "notes"


def test_sync_tells_what_it_did_and_what_it_left(quoth: Quoth, notes: Path) -> None:
    (notes / "photo.png").write_bytes(b"\x89PNG")
    (notes / ".quothignore").write_text("3.md\n")
    (notes / "bad.txt").write_bytes(b"\xff")
    told = quoth("sync", "c.quoth", "notes", "--no-encode")
    assert told.code == 1
    assert "skipped notes/bad.txt:1: not valid utf-8" in told.err
    assert "1 file in unsupported formats: 1 .png" in told.err
    assert "1 file or folder ignored" in told.err
    (notes / "bad.txt").unlink()
    found = quoth("sync", "c.quoth", "--json", "--no-encode").json()
    assert (found["added"], found["removed"], found["problems"]) == (0, 0, [])
    assert found["formats_not_read"] == {".png": 1}


def test_a_dry_run_changes_nothing(quoth: Quoth, notes: Path) -> None:
    told = quoth("sync", "c.quoth", "notes", "--dry-run")
    assert told.code == 0 and "read notes/0.md" in told.out and "nothing was changed" in told.out
    assert not Path("c.quoth").exists()
    quoth("sync", "c.quoth", "notes", "--no-encode")
    (notes / "5.md").unlink()
    plan = quoth("sync", "c.quoth", "--dry-run", "--json").json()["folders"][0]
    assert (plan["gone"], plan["documents_to_remove"], plan["documents"]) == (["5.md"], 1, 12)


def test_many_removals_need_a_yes(quoth: Quoth, notes: Path) -> None:
    quoth("add", "c.quoth", "notes", "--sync", "--no-encode")
    for path in list(notes.iterdir())[1:]:
        path.unlink()
    refused = quoth("sync", "c.quoth")
    refused.assert_fails(3, "11 of 12 documents (92%) from notes", "Nothing was changed", "--yes")
    assert quoth("sync", "c.quoth", "--yes", "--json").json()["removed"] == 11


def test_add_sync_takes_folders_alone(quoth: Quoth, notes: Path) -> None:
    quoth("add", "c.quoth", "notes/1.md", "--sync").assert_fails(2, "is not a folder")
    quoth("add", "c.quoth", "notes", "--sync", "--strict").assert_fails(2, "--strict")


def test_forget_leaves_the_documents(quoth: Quoth, notes: Path) -> None:
    quoth("sync", "c.quoth", "notes", "--no-encode")
    assert "12 documents stay" in quoth("sync", "c.quoth", "--forget", "notes").out
    quoth("sync", "c.quoth").assert_fails(2, "has no folders to sync")


@pytest.mark.parametrize(("typed", "left"), [("y\n", 1), ("n\n", 12)])
def test_a_terminal_is_asked(notes: Path, typed: str, left: int) -> None:
    with Engine.open("c.quoth") as engine:
        engine.sync(["notes"])
    for path in list(notes.iterdir())[1:]:
        path.unlink()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from quoth.cli.main import main; main()", "sync", "c.quoth"]
    os.write(ours, typed.encode())
    done = subprocess.run(
        [*command, "--no-encode"], stdin=theirs, capture_output=True, text=True, timeout=PATIENCE
    )
    for end in (ours, theirs):
        os.close(end)
    assert "this removes 11 of 12 documents (92%) from notes" in done.stderr
    assert done.returncode == (0 if left == 1 else 3)
    with Engine.open("c.quoth") as engine:
        assert len(engine.docids()) == left


@contextmanager
def _watching(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    code = "from quoth.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for(engine: Engine, docids: set[str]) -> None:
    until = time.monotonic() + PATIENCE
    while set(engine.docids()) != docids:
        assert time.monotonic() < until, engine.docids()
        time.sleep(0.05)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_watch_follows_changes_until_it_is_told_to_stop(notes: Path, end: signal.Signals) -> None:
    with Engine.open("c.quoth") as engine:
        engine.sync(["notes"])
        expected = set(engine.docids())
        with _watching("watch", "c.quoth", "--sync.settle-seconds", "0.05") as process:
            (notes / "new.md").write_text("# New\nA swift.")
            _wait_for(engine, expected | {"notes/new.md"})
            (notes / "new.md").rename(notes / "newer.md")
            _wait_for(engine, expected | {"notes/newer.md"})
            for path in notes.iterdir():
                path.unlink()
            (notes / "last.md").write_text("# Last\nThe last one, which is longer than others.")
            _wait_for(engine, expected | {"notes/newer.md", "notes/last.md"})  # removals wait
            process.send_signal(end)
            assert process.stderr is not None
            told = process.stderr.read()
            assert process.wait(PATIENCE) == 0, told
    assert 'waiting for "quoth sync c.quoth --yes": 13 of 13 documents' in told
    assert told.endswith("stopped; everything stored so far is kept\n")
    assert "Traceback" not in told
