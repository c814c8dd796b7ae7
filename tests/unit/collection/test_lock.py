"""One writer at a time, across processes; a killed writer holds nobody up."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quoth.collection.lock import FILE_NAME, hold_writer_lock
from quoth.errors import Busy, CollectionError

HOLDER = """
import sys
from pathlib import Path
from quoth.collection.lock import hold_writer_lock
with hold_writer_lock(Path(sys.argv[1]), wait_seconds=0.0):
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
"""


@contextmanager
def _other_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Hold the lock in another process until it is sent a line, or killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


def test_a_second_writer_is_told_who_it_waited_for_and_how_long(tmp_path: Path) -> None:
    with (
        _other_process(tmp_path),
        pytest.raises(Busy) as caught,
        hold_writer_lock(tmp_path, wait_seconds=0.25),
    ):
        raise AssertionError("two writers at once")
    message = str(caught.value)
    assert str(tmp_path) in message and "waited 0.25 s" in message
    assert "--collection.wait-seconds" in message


def test_a_second_writer_that_does_not_want_to_wait_is_told_at_once(tmp_path: Path) -> None:
    with (
        _other_process(tmp_path),
        pytest.raises(Busy, match="waited 0 s"),
        hold_writer_lock(tmp_path, wait_seconds=0.0),
    ):
        raise AssertionError("two writers at once")


def test_a_second_writer_waits_for_the_first_to_finish(tmp_path: Path) -> None:
    with _other_process(tmp_path) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        let_go = threading.Timer(0.3, lambda: print(file=holder.stdin, flush=True))
        let_go.start()
        with hold_writer_lock(tmp_path, wait_seconds=60.0):
            assert let_go.finished.is_set(), "the lock was not held"
            assert holder.stdout.readline() == "released\n"
        let_go.join()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with _other_process(tmp_path) as holder:
        holder.kill()
        holder.wait()
        with hold_writer_lock(tmp_path, wait_seconds=0.0):
            pass


def test_the_lock_is_free_after_a_failed_write(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_writer_lock(tmp_path, wait_seconds=0.0):
        _ = 1 / 0
    with hold_writer_lock(tmp_path, wait_seconds=0.0):
        pass


def test_a_lock_file_that_is_no_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"something else entirely " * 100)
    with (
        pytest.raises(CollectionError, match=FILE_NAME),
        hold_writer_lock(tmp_path, wait_seconds=0),
    ):
        raise AssertionError("a lock on nothing")


def test_a_folder_that_cannot_hold_a_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with (
        pytest.raises(CollectionError, match=FILE_NAME),
        hold_writer_lock(tmp_path, wait_seconds=0),
    ):
        raise AssertionError("a lock on nothing")
