"""`quoth completion` and `quoth man`, in the shells and the reader that this machine has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Quoth, make_runner

from quoth.cli.main import _MODULES, make_app
from quoth.cli.man import man_page

QUOTH = Path(sys.executable).parent / "quoth"


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


def _needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_it_can_parse(
    quoth: Quoth, shell: str, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text(quoth("completion", shell).out)
    assert "_QUOTH_COMPLETE" in script.read_text() and "quoth" in script.read_text()
    subprocess.run([_needs(shell), "-n", str(script)], check=True)


def test_bash_completes_commands_and_options(quoth: Quoth) -> None:
    script = quoth("completion", "bash").out
    ask = """
complete_line() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _quoth_completion quoth; echo "${COMPREPLY[@]}"
}
complete_line quoth se
complete_line quoth search notes.quoth --wh
"""
    path = f"{QUOTH.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [_needs("bash"), "--norc", "-c", script + ask],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    commands, options = done.stdout.splitlines()
    assert commands.split() == ["search", "serve", "settings"]
    assert options.split() == ["--where"]


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
