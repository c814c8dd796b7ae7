"""Record a newcomer's first ten minutes: `python docs/record.py` writes first_ten_minutes.cast.

The file is an asciinema recording (version 2): `asciinema play docs/first_ten_minutes.cast`. Output
is taken as it comes from each command, and its real time is kept up to a limit; typing is added.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
SCRIPT = DOCS / "first_ten_minutes.sh"
RECORDING = DOCS / "first_ten_minutes.cast"
WIDTH, HEIGHT = 100, 30
_PER_KEY, _PAUSE, _LONGEST = 0.03, 1.0, 8.0  # seconds


@dataclass(frozen=True, slots=True)
class Step:
    """A command, what it printed, and how long it took in seconds."""

    command: str
    output: str
    seconds: float


def commands() -> list[str]:
    """Read the commands of the script."""
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def run(folder: Path) -> list[Step]:
    """Run all commands in a folder; one that fails stops it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    steps = []
    for command in commands():
        begun = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stdout}")
        steps.append(Step(command, done.stdout, time.monotonic() - begun))
    return steps


def write(steps: list[Step], path: Path) -> None:
    """Write the recording: each command is typed, then its output appears."""
    head = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "Quoth: the first ten minutes"}
    lines, moment = [json.dumps(head)], 0.5
    for step in steps:
        moment = _put(lines, moment, "$ ")
        for character in step.command:
            moment = _put(lines, moment + _PER_KEY, character)
        moment = _put(lines, moment + _PER_KEY, "\r\n")
        moment += min(step.seconds, _LONGEST)
        if step.output:
            moment = _put(lines, moment, step.output.replace("\n", "\r\n"))
        moment += _PAUSE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(path: Path) -> list[tuple[str, str]]:
    """Read a recording back: each command with its output."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    text = "".join(json.loads(line)[2] for line in lines).replace("\r\n", "\n")
    found, rest = [], text
    for command in commands():
        before, _, rest = rest.partition(f"$ {command}\n")
        if found:
            found[-1] = (found[-1][0], before)
        found.append((command, ""))
    found[-1] = (found[-1][0], rest)
    return found


def _put(lines: list[str], moment: float, text: str) -> float:
    lines.append(json.dumps([round(moment, 3), "o", text], ensure_ascii=False))
    return moment


def main() -> None:
    """Record."""
    with tempfile.TemporaryDirectory() as folder:
        write(run(Path(folder)), RECORDING)


if __name__ == "__main__":
    main()
