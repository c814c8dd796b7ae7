"""kill -9 at random points, and a crash at every single step: nothing acknowledged is ever lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import reference

from quoth.engine.engine import Engine
from quoth.records import Document

WRITER = Path(__file__).parent.parent / "support" / "random_writer.py"
CRASHER = Path(__file__).parent.parent / "support" / "crashing_writer.py"
STEPS = [
    "store.before_commit",
    "store.after_commit",
    "index.before_commit",
    "index.before_merge",
    "index.before_record",
    "index.after_record",
    "statistics.before_commit",
    "statistics.after_commit",
    "forget.before",
]


def _kill_cycles(folder: Path, *, cycles: int, seed: int) -> None:
    chance = random.Random(seed)
    expected: dict[str, str] = {}
    for cycle in range(cycles):
        doubtful = _write_and_kill(folder, chance, expected, seed=seed * 1000 + cycle)
        _check(folder, expected, doubtful)


def _write_and_kill(
    folder: Path, chance: random.Random, expected: dict[str, str], *, seed: int
) -> dict[str, str | None]:
    """Let a writer work, kill it, note what it acknowledged; return what it was just doing."""
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(seed)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.5))
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().splitlines()
    doubtful: dict[str, str | None] = {}
    for line in lines:
        try:
            state, wanted = json.loads(line)
        except json.JSONDecodeError:
            continue  # the kill cut this line short
        if state == "doing":
            doubtful = wanted
        else:
            _apply(expected, doubtful)
            doubtful = {}
    return doubtful


def _apply(expected: dict[str, str], wanted: dict[str, str | None]) -> None:
    for docid, text in wanted.items():
        if text is None:
            expected.pop(docid, None)
        else:
            expected[docid] = text


def _check(folder: Path, expected: dict[str, str], doubtful: dict[str, str | None]) -> None:
    with Engine.open(folder) as engine:
        hits = engine.search(
            "owl barn night", k=10_000
        )  # the first search after a crash catches up
        found = {docid: engine.document(docid).fields["text"][0] for docid in engine.docids()}
        if found != expected:  # the batch in flight is there whole or not at all
            _apply(expected, doubtful)
        assert found == expected
        documents = {docid: engine.document(docid) for docid in found}
        every = reference.search(documents, "owl barn night", k=10_000)
        reference.assert_same_hits(hits, every, all_hits=every)
        damage = engine.verify()
        assert damage.is_clean, damage


def test_kill_at_random_points(tmp_path: Path) -> None:
    _kill_cycles(tmp_path / "c.quoth", cycles=5, seed=7)


@pytest.mark.slow
def test_kill_at_random_points_for_long(tmp_path: Path) -> None:
    _kill_cycles(tmp_path / "c.quoth", cycles=300, seed=11)


@pytest.mark.parametrize("step", STEPS)
def test_crash_at_each_step(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "c.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents(
            Document(f"d{number}", {"text": (f"owl barn {number}",)}) for number in range(30)
        )
    expected = {f"d{number}": f"owl barn {number}" for number in range(30)}
    doubtful: dict[str, str | None] = {"d1": "night owl", "new": "barn", "d2": None}
    code = subprocess.run(
        [sys.executable, str(CRASHER), str(folder), step], check=False, env={**os.environ}
    ).returncode
    assert code == 137, "the writer did not reach the step"
    _check(folder, expected, doubtful)
    with Engine.open(folder) as engine:  # and writing goes on
        engine.add_documents([Document("later", {"text": ("owl later",)})])
        assert "later" in engine.docids() and engine.verify().is_clean
