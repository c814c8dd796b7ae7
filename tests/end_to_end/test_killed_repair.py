"""Whoever meets a repair, or one that was killed, gets a clear answer and never a traceback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import damaging
import halted_repair
import pytest
from commands import make_runner

from quoth.engine.engine import Engine
from quoth.errors import Busy


@contextmanager
def _repairing(folder: Path) -> Iterator[None]:
    """Have a repair under way in another process, which is killed when the block ends."""
    command = [sys.executable, halted_repair.__file__, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as repair:
        assert repair.stdout is not None and repair.stdout.readline() == "halted\n"
        try:
            yield
        finally:
            repair.kill()


@pytest.fixture
def sample(tmp_path: Path) -> damaging.Sample:
    """Return a collection whose index is damaged."""
    made = damaging.Sample(tmp_path / "c.quoth")
    damaging.truncate(next((made.folder / "lexical").rglob("*.idx")))
    return made


def test_commands_that_meet_a_repair_say_what_to_do(
    sample: damaging.Sample,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    quoth = make_runner(monkeypatch, capsys)
    with _repairing(sample.folder):
        quoth("search", sample.folder, "owl").assert_fails(3, "being built or repaired")
        quoth("status", sample.folder).assert_fails(3, "being built or repaired")
        wait = ("--collection.wait-seconds", "0")
        quoth("verify", sample.folder, *wait).assert_fails(3, "another process is writing")
        quoth("remove", sample.folder, "d1", *wait).assert_fails(3, "another process is writing")


def test_a_killed_repair_is_finished_by_the_next_search(sample: damaging.Sample) -> None:
    with Engine.open(sample.folder, settings=damaging.SETTINGS) as engine:
        with _repairing(sample.folder), pytest.raises(Busy, match="search again when it has"):
            engine.search("owl")
        sample.assert_reads_back(engine)
        assert engine.verify().lines() == ()


def test_a_repair_that_is_killed_while_it_deletes_is_no_damage(sample: damaging.Sample) -> None:
    (sample.folder / "lexical" / "artifact.json").unlink()
    with Engine.open(sample.folder, settings=damaging.SETTINGS) as engine:
        sample.assert_reads_back(engine)
        assert engine.verify().lines() == ()
