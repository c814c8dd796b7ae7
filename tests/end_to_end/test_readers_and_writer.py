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

SECONDS = 3


def _start(module: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(module), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> list[int]:
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return [int(number) for number in out.split()]


def test_every_reader_sees_whole_states_while_a_writer_works(tmp_path: Path) -> None:
    folder, stop = tmp_path / "c.quoth", tmp_path / "stop"
    with Engine.open(folder) as engine:
        engine.add_documents(paired_writer.make_pair(0, 0))
    with _start(Path(paired_writer.__file__), folder, SECONDS) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        with (
            _start(Path(paired_reader.__file__), folder, stop, 1) as one,
            _start(Path(paired_reader.__file__), folder, stop, 2) as other,
        ):
            try:
                (batches,) = _finish(writer)
            finally:
                stop.touch()
            read = [_finish(one), _finish(other)]
    assert batches > 5
    for searches, states in read:
        assert searches > 5 and states > 1, "the readers saw the writer at work"
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
