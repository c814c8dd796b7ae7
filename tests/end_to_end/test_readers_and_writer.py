"""Readers in other processes see whole states only, while one writer works; a second one waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import paired_reader
import paired_writer
import pytest

from quoth.engine.engine import Engine
from quoth.errors import Busy
from quoth.records import Document

STATES = 20
"""Different states that each reader has to see before the writer may stop."""


def _start(module: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(module), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return out.strip()


def test_every_reader_sees_whole_states_while_a_writer_works(tmp_path: Path) -> None:
    """The writer works until both readers have seen enough, however slow the machine is."""
    folder, stop = tmp_path / "c.quoth", tmp_path / "stop"
    with Engine.open(folder) as engine:
        engine.add_documents(paired_writer.make_pair(0, 0))
    with (
        _start(Path(paired_writer.__file__), folder, stop) as writer,
        _start(Path(paired_reader.__file__), folder, stop, STATES, 1) as one,
        _start(Path(paired_reader.__file__), folder, stop, STATES, 2) as other,
    ):
        try:
            seen = [_finish(one), _finish(other)]
        finally:
            stop.touch()
        _finish(writer)
    assert seen == [str(STATES)] * 2
    with Engine.open(folder) as engine:
        assert engine.verify().is_clean


def test_a_second_writer_is_told_that_another_one_is_at_work(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"
    impatient = [{"collection": {"wait_seconds": 0.0}}]

    def read_slowly() -> object:
        yield paired_writer.make_pair(1, 0)[0]
        with Engine.open(folder, settings=impatient) as second:
            for write in (
                lambda: second.add_documents([Document("x", {"text": ("owl",)})]),
                lambda: second.remove(["a1"]),
                second.verify,
            ):
                with pytest.raises(Busy, match="another process is writing"):
                    write()
        yield paired_writer.make_pair(1, 0)[1]

    with Engine.open(folder) as first:
        first.add_documents(paired_writer.make_pair(0, 0))
        assert first.add_documents(read_slowly()).added == 2  # type: ignore[arg-type]
        assert sorted(first.docids()) == ["a0", "a1", "b0", "b1"]
