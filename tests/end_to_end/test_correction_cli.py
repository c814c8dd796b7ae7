"""A misspelt query on a terminal: one key takes the correction, and nobody else is asked."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.shards.split_and_merge import split_collection

PATIENCE = 300  # seconds; only a failure takes them
CODE = "from quoth.cli.main import main; main()"
QUESTION = "did you mean: heron? [Enter/y]"


@pytest.fixture(autouse=True)
def birds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    with Engine.open("birds.quoth") as engine:
        engine.add_documents(
            [
                Document("lake", {"text": ("A heron wades in the lake.",)}),
                Document("barn", {"text": ("An owl sleeps in the barn.",)}),
            ]
        )
    return tmp_path


class Terminal:
    """A pseudo-terminal with a command on it."""

    def __init__(self, end: int, process: subprocess.Popen[bytes]) -> None:
        self._end = end
        self.process = process
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read until the command has shown something."""
        until = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < until, self.shown
            assert self._read(), self.shown

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._end, keys.encode())

    def finish(self) -> str:
        """Read what is left until the command ends; returns all that was shown."""
        while self._read():
            pass
        assert self.process.wait(PATIENCE) == 0, self.shown
        return self.shown

    def _read(self) -> bool:
        ready, _, _ = select.select([self._end], [], [], PATIENCE)
        assert ready, self.shown
        try:
            found = os.read(self._end, 65_536)
        except OSError:  # Linux says so where nobody has the other end any more
            found = b""
        self.shown += found.decode()
        return bool(found)


@contextlib.contextmanager
def _on_terminal(*arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments], stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.parametrize("key", ["\r", "\n", "y", "Y"])
def test_one_key_searches_for_what_was_meant(key: str) -> None:
    with _on_terminal("search", "birds.quoth", "hereon") as terminal:
        terminal.wait_for(QUESTION)
        assert "nothing found; try other words" in terminal.shown
        assert "wades" not in terminal.shown
        terminal.press(key)
        shown = terminal.finish()
    assert "searching for: heron" in shown and "wades in the lake" in shown
    assert shown.count("did you mean") == 1


@pytest.mark.parametrize("key", ["n", "q", " ", "\x1b", "\x1b[A", "\x04"])
def test_any_other_key_leaves_it(key: str) -> None:
    with _on_terminal("search", "birds.quoth", "hereon owl") as terminal:
        terminal.wait_for("did you mean: heron owl? [Enter/y]")
        assert "sleeps in the barn" in terminal.shown  # what was found is seen before
        terminal.press(key)
        shown = terminal.finish()
    assert "searching for" not in shown and "wades" not in shown


def test_nobody_is_asked_where_nothing_is_misspelt_or_fix_decides() -> None:
    for arguments in (["heron"], ["hereon", "--fix"]):
        with _on_terminal("search", "birds.quoth", *arguments) as terminal:
            shown = terminal.finish()
        assert "wades in the lake" in shown and "did you mean" not in shown


def test_json_is_never_interrupted() -> None:
    with _on_terminal("search", "birds.quoth", "hereon", "--json") as terminal:
        shown = terminal.finish()
    record = shown[shown.index("{") : shown.rindex("}") + 1]  # a progress bar came and went
    assert json.loads(record)["did_you_mean"] == "heron" and "[Enter/y]" not in shown


def test_lines_typed_before_the_question_are_left_to_the_shell() -> None:
    with _on_terminal("search", "birds.quoth", "hereon") as terminal:
        terminal.press("ls\n")
        shown = terminal.finish()
    assert "[Enter/y] no" in shown and "searching for" not in shown


def test_shards_are_corrected_by_a_key_too() -> None:
    split_collection(Path("birds.quoth"), Path("birds.shards"), count=2)
    with _on_terminal("search", "birds.shards", "hereon") as terminal:
        terminal.wait_for(QUESTION)
        terminal.press("y")
        assert "wades in the lake" in terminal.finish()


@pytest.mark.parametrize("piped", ["stdin", "stdout", "stderr"])
def test_without_a_terminal_nobody_is_asked(piped: str) -> None:
    ours, theirs = pty.openpty()
    ends: dict[str, int] = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    ends[piped] = subprocess.DEVNULL if piped == "stdin" else subprocess.PIPE
    command = [sys.executable, "-c", CODE, "search", "birds.quoth", "hereon"]
    process = subprocess.Popen(command, **ends)  # type: ignore[call-overload]
    os.close(theirs)
    terminal = Terminal(ours, process)
    shown = terminal.finish()
    told = (process.stderr or process.stdout).read().decode() if piped != "stdin" else ""
    os.close(ours)
    assert "did you mean: heron (--fix searches for it)" in shown + told
    assert "[Enter/y]" not in shown + told
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
