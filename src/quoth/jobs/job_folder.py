"""What a learning keeps on disk, so that an interruption at any moment loses little.

    notes.quoth/learning/
      state.json       settings, the plan, and what each finished stage found; renamed into place
      written/         pseudo-queries, one file per chunk of passages
      passages.set     what is trained on, tokenised
      training.json    its queries as text
      stages/          checkpoints and results of training
      report.json, report.html

A stage that is in `state.json` is never done again; one that is not goes on from its own files.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quoth.artifact import write_text_atomically
from quoth.errors import Damaged

STATE_FILE = "state.json"
_VERSION = 1


class JobFolder:
    """The files of one learning, and how far it has come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: dict[str, Any] = self._read()

    @property
    def written(self) -> Path:
        """Where pseudo-queries are written."""
        return self.path / "written"

    @property
    def passage_set(self) -> Path:
        """What is trained on."""
        return self.path / "passages.set"

    @property
    def trained_queries(self) -> Path:
        """The queries that are trained on, as text."""
        return self.path / "training.json"

    @property
    def stages(self) -> Path:
        """Where training keeps its checkpoints."""
        return self.path / "stages"

    @property
    def report(self) -> Path:
        """The report as JSON."""
        return self.path / "report.json"

    @property
    def page(self) -> Path:
        """The report as a page."""
        return self.path / "report.html"

    @property
    def is_begun(self) -> bool:
        """Whether there is a learning here, finished or not."""
        return bool(self._state)

    @property
    def is_finished(self) -> bool:
        """Whether the learning here has come to its report."""
        return self.is_begun and self.report.exists()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides what comes out."""
        return dict(self._state.get("settings", {}))

    def fact(self, name: str) -> Any:
        """Read what was noted at the beginning."""
        return self._state["facts"][name]

    def differences(self, settings: Mapping[str, Any]) -> list[str]:
        """Name the settings that differ from those of the learning here."""
        before, now = _flat(self.settings), _flat(settings)
        return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))

    def begin(self, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Drop whatever is here and begin anew."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        self._state = {
            "version": _VERSION,
            "settings": dict(settings),
            "facts": dict(facts),
            "finished": {},
            "spent": {},
            "peaks": {},
        }
        self._write()

    def finished(self, stage: str) -> dict[str, Any] | None:
        """Return what a finished stage found, None while it is not finished."""
        found: dict[str, Any] | None = self._state["finished"].get(stage)
        return found

    def found(self, stage: str) -> dict[str, Any]:
        """Return what a stage found that must be finished by now."""
        found: dict[str, Any] = self._state["finished"][stage]
        return found

    def finish(self, stage: str, found: Mapping[str, Any]) -> dict[str, Any]:
        """Note that a stage is finished, and what it found."""
        plain: dict[str, Any] = json.loads(json.dumps(found))
        self._state["finished"][stage] = plain
        self._write()
        return plain

    def seconds(self, stage: str) -> float:
        """Return the time spent on a stage, that of interrupted runs included."""
        return float(self._state["spent"].get(stage, 0.0))

    def peak(self, stage: str) -> float:
        """Return the most memory used by the end of a stage, in MB."""
        return float(self._state["peaks"].get(stage, 0.0))

    def note_peak(self, stage: str, megabytes: float) -> None:
        """Note the most memory used by the end of a stage; `finish` writes it."""
        self._state["peaks"][stage] = round(megabytes, 1)

    @contextmanager
    def clock(self, stage: str) -> Iterator[None]:
        """Add the time of the block to what was spent on a stage, interrupted or not."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            spent = self.seconds(stage) + time.perf_counter() - begun
            self._state["spent"][stage] = round(spent, 3)
            self._write()

    def _write(self) -> None:
        text = json.dumps(self._state, indent=1, sort_keys=True)
        write_text_atomically(self.path / STATE_FILE, text + "\n")

    def _read(self) -> dict[str, Any]:
        path = self.path / STATE_FILE
        if not path.exists():
            return {}
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found if found["version"] == _VERSION else {}
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{path} cannot be read ({error}); delete {self.path}") from error


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Name nested settings with dots, as options do.

    >>> _flat({"learn": {"k": 4}, "pairs": ""})
    {'learn.k': 4, 'pairs': ''}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            found[name] = value
    return found
