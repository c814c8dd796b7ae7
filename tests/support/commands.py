"""Commands as a user meets them, run in this process through the installed one's `main`."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quoth.cli.main import main

BIRDS = [
    {"_id": "owl", "title": "Barn owl", "text": "An owl hunts. The owl is an owl.", "year": 2019},
    {"_id": "raven", "title": "Raven", "text": "A raven watches an owl at dusk.", "year": 2020},
    {"_id": "hen", "title": "Hen", "text": "A hen sleeps in the barn at night.", "year": 2021},
    {"_id": "swift", "title": "Swift", "text": "Swifts sleep on the wing.", "year": 2022},
]


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code in (0, 1), self.err
        return json.loads(self.out)

    def assert_fails(self, code: int, *expected: str) -> None:
        """A failure is one line that says what to do, without a traceback and without output."""
        assert self.code == code, self.err
        assert self.out == ""
        assert self.err.startswith("error: ") and self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        for text in expected:
            assert text in self.err


Quoth = Callable[..., Outcome]


def make_runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    """Return what runs a command with some arguments."""

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


def write_lines(path: Path, records: Sequence[object]) -> Path:
    """Write records as JSON lines, strings as they are."""
    lines = (each if isinstance(each, str) else json.dumps(each) for each in records)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
