"""`quoth completion` and `quoth man`, in the shells and the reader that this machine has."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest
from commands import Quoth, make_runner

from quoth.cli.main import _MODULES, make_app
from quoth.cli.man import man_page

QUOTH = Path(sys.executable).parent / "quoth"
LINES = {
    "quoth sett": "settings",
    "quoth search notes.quoth --whe": "--where",
    "quoth keys rev": "revoke",
    "quoth status no": "notes.quoth/",
}
"""What is typed, and the one word that it can become."""


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


def _needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def _environment(home: Path) -> dict[str, str]:
    """Let a shell find quoth, and nothing of the user's own settings."""
    path = f"{QUOTH.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home), "TERM": "xterm"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_it_can_parse(
    quoth: Quoth, shell: str, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text(quoth("completion", shell).out)
    assert "_QUOTH_COMPLETE" in script.read_text() and "quoth" in script.read_text()
    subprocess.run([_needs(shell), "-n", str(script)], check=True)


def test_bash_completes_commands_and_options(quoth: Quoth, tmp_path: Path) -> None:
    script = quoth("completion", "bash").out
    ask = """
complete_line() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _quoth_completion quoth; echo "${COMPREPLY[@]}"
}
complete_line quoth se
complete_line quoth search notes.quoth --wh
"""
    done = subprocess.run(
        [_needs("bash"), "--norc", "-c", script + ask],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(tmp_path),
    )
    commands, options = done.stdout.splitlines()
    assert commands.split() == ["search", "serve", "settings"]
    assert options.split() == ["--where"]


def test_fish_completes_commands_options_and_files(quoth: Quoth, tmp_path: Path) -> None:
    script = tmp_path / "quoth.fish"
    script.write_text(quoth("completion", "fish").out)
    (tmp_path / "notes.quoth").mkdir()
    asked = [f"complete -C {shlex.quote(line)}; echo ." for line in LINES]
    done = subprocess.run(
        [_needs("fish"), "--no-config", "-c", f"source {script}; {'; '.join(asked)}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=_environment(tmp_path),
    )
    found = [part.split("\t")[0].strip() for part in done.stdout.split("\n.\n")]
    assert found[: len(LINES)] == list(LINES.values())


def test_zsh_completes_commands_options_and_files(quoth: Quoth, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(quoth("completion", "zsh").out)
    (tmp_path / "notes.quoth").mkdir()
    with Zsh(_needs("zsh"), tmp_path) as zsh:
        zsh.type('autoload -Uz compinit; compinit -D -u; eval "$(<script)"\n')
        for line, word in LINES.items():
            assert zsh.complete(line).split()[-1] == word


class Zsh:
    """A shell at a terminal of its own, as only such a one completes; waits for what it prints."""

    def __init__(self, program: str, folder: Path) -> None:
        self._terminal, theirs = pty.openpty()
        self._shell = subprocess.Popen(
            [program, "-f", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
        )
        os.close(theirs)
        self._read = ""
        show = 'show() { print -r -- "<li""ne>$BUFFER</li""ne>"; BUFFER= }'
        self.type(f"{show}; zle -N show; bindkey '^X' show\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._terminal)

    def type(self, text: str) -> None:
        """Type some text."""
        os.write(self._terminal, text.encode())

    def complete(self, line: str) -> str:
        """Type a line and the tab key; return the line that comes of it."""
        self.type(f"{line}\t\x18")
        while not (found := re.search(r"<line>(.*?)</line>", self._read, re.S)):
            self._read += os.read(self._terminal, 4096).decode(errors="replace")
        self._read = self._read[found.end() :]
        return found[1]


def test_another_shell_is_refused(quoth: Quoth) -> None:
    outcome = quoth("completion", "tcsh")
    assert outcome.code == 2
    assert all(f"'{each}'" in outcome.err for each in ("bash", "zsh", "fish")), outcome.err


def test_the_manual_has_every_command_and_the_options_of_its_help() -> None:
    page = man_page(make_app())
    for name in _MODULES:
        assert re.search(rf"^\.SS \\fBquoth {name}\b", page, re.M), name
    assert "\\fB\\-\\-where\\fR \\fICONDITION\\fR" in page
    assert "\\fB130\\fR\ninterrupted" in page


def test_man_renders_it_without_a_warning(quoth: Quoth, tmp_path: Path) -> None:
    page = tmp_path / "quoth.1"
    page.write_text(quoth("man").out, encoding="utf-8")
    done = subprocess.run(
        [_needs("man"), "--warnings", "-l", str(page)],
        capture_output=True,
        text=True,
        env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""},
    )
    assert done.returncode == 0 and done.stderr == ""
    text = re.sub(r".\x08", "", done.stdout)
    assert "quoth search COLLECTION QUERY" in text
    assert "--where CONDITION" in text and "EXIT STATUS" in text


def test_mandoc_finds_nothing_but_the_missing_date(quoth: Quoth, tmp_path: Path) -> None:
    """A date that is the same whenever the page is made would be untrue, so there is none."""
    page = tmp_path / "quoth.1"
    page.write_text(quoth("man").out, encoding="utf-8")
    done = subprocess.run(
        [_needs("mandoc"), "-T", "lint", str(page)], capture_output=True, text=True
    )
    told = (done.stdout + done.stderr).splitlines()
    assert [line for line in told if "missing date" not in line] == []
