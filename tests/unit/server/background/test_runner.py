"""Jobs of a server: one at a time, watched, cancelled, and resumed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.engine.models import can_encode
from quoth.errors import Busy, NotFound
from quoth.records import Document
from quoth.server.background.runner import CANCELLED, FAILED, FINISHED, IDLE, RUNNING, JobRunner

BIRDS = [
    Document(f"bird {at}", {"text": (f"Bird number {at} sings in the {place}.",)})
    for at, place in enumerate(("barn", "wood", "reeds", "town") * 4)
]
PATIENCE_SECONDS = 600.0  # only a failure takes them


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents(BIRDS)
    return tmp_path / "notes.quoth"


@pytest.fixture
def runner(notes: Path) -> Iterator[JobRunner]:
    made = JobRunner(notes, ())
    yield made
    made.close()
    assert made.state.state != RUNNING


def _wait(runner: JobRunner, until: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _look in range(int(PATIENCE_SECONDS / 0.02)):
        if until():
            return
        pause.wait(0.02)
    pytest.fail(f"nothing came of it: {runner.state}")


def _over(runner: JobRunner) -> None:
    _wait(runner, lambda: runner.state.state != RUNNING)


@pytest.mark.skipif(not can_encode(), reason="vectors need the extra neural")
def test_a_job_runs_to_its_end(runner: JobRunner, notes: Path) -> None:
    assert runner.state.state == IDLE
    begun = runner.start("encode")
    assert (begun.state, begun.kind) == (RUNNING, "encode")
    with pytest.raises(Busy, match="encode is running; wait for it, or cancel it"):
        runner.start("learn")
    _over(runner)
    assert runner.state.state == FINISHED, runner.state
    assert runner.state.message.startswith("16 vectors; ") and runner.state.seconds > 0
    with Engine.open(notes) as engine:
        assert engine.status()["indexes"]["dense"]["vectors"] == 16


def test_a_job_that_fails_says_why(runner: JobRunner, tmp_path: Path) -> None:
    runner.start("encode", [{"dense": {"encoder": str(tmp_path / "no-such-encoder")}}])
    _over(runner)
    assert runner.state.state == FAILED
    assert "no-such-encoder" in runner.state.message and "Traceback" not in runner.state.message


def test_a_cancelled_job_can_be_started_again(runner: JobRunner) -> None:
    with pytest.raises(NotFound, match="no job is running"):
        runner.cancel()
    runner.start("learn")
    runner.cancel()
    _over(runner)
    assert runner.state.state == CANCELLED and "resumes" in runner.state.message
    assert runner.start("learn").state == RUNNING  # closing ends it


def test_a_process_that_is_killed_is_told(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quoth.server.background.runner._WORKER", "quoth.no_such_module")
    runner.start("encode")
    _over(runner)
    assert runner.state.state == FAILED and "ended with code 1" in runner.state.message


def test_closing_ends_what_runs(notes: Path) -> None:
    runner = JobRunner(notes, ())
    runner.start("learn")
    runner.close()
    assert runner.state.state == CANCELLED


def test_one_that_is_ended_before_it_can_say_so_was_cancelled(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deaf_worker.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(1))\n"
        'print(\'{"note": "here"}\', flush=True)\n'
        "signal.pause()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("quoth.server.background.runner._WORKER", "deaf_worker")
    runner = JobRunner(notes, ())
    runner.start("encode")
    while runner.state.message != "here":
        time.sleep(0.01)
    runner.close()
    assert runner.state.state == CANCELLED
