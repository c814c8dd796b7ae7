"""What a job keeps on disk, so that an interruption at any moment loses little.

    state.json       what decides the outcome, facts noted at the beginning, and what each finished
                     stage found; renamed into place
    writer.lock      held while a process works here
    report.json      the report, with which the job ends
    …                whatever stages write: what later stages read, and checkpoints

A stage that is in `state.json` is never done again; one that is not goes on from its own files. At
the end folders go and files stay. Where the job makes a model in a folder of its own, everything
here goes, and the report is kept with the model, beside the settings it was trained with.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from quoth.artifact import write_text_atomically
from quoth.collection.lock import FILE_NAME as LOCK_FILE
from quoth.collection.lock import hold_writer_lock
from quoth.errors import Busy, Damaged

STATE_FILE = "state.json"
REPORT_FILE = "report.json"
MODEL_REPORT_FILE = "quoth_training.json"
_VERSION = 1
_OTHER_VERSION = "version of Quoth"


class JobFolder:
    """The files of one job, and how far it has come."""

    def __init__(self, path: Path, *, model: Path | None = None) -> None:
        """Open a folder, which need not exist; `model` is where the job saves one, if it does."""
        self.path = path
        self._model = model
        self.report = path / REPORT_FILE if model is None else model / MODEL_REPORT_FILE
        self._state: dict[str, Any] = self._read()

    @classmethod
    def beside(cls, model: Path) -> JobFolder:
        """Open the folder of a job that makes a model, which lies beside the model's."""
        return cls(model.with_name(model.name + ".training"), model=model)

    @property
    def is_begun(self) -> bool:
        """Whether there is a job here, finished or not."""
        return bool(self._state)

    @property
    def is_finished(self) -> bool:
        """Whether the job here has come to its report."""
        return self.is_begun and self._model is None and self.report.exists()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides what comes out."""
        return dict(self._state.get("settings", {}))

    def fact(self, name: str) -> Any:
        """Read what was noted at the beginning."""
        return self._state["facts"][name]

    def noted_path(self, name: str) -> Path | None:
        """Read a path that was noted at the beginning; None where there was none."""
        found = self._state["facts"].get(name)
        return Path(found) if found else None

    # Beginning, going on and ending -----------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that works here; a folder in which nothing was begun goes again."""
        with ExitStack() as stack:
            try:
                stack.enter_context(hold_writer_lock(self.path, wait_seconds=0))
            except Busy as error:
                raise Busy(f"another process works in {self.path}; wait until it ends") from error
            self._state = self._read()
            try:
                yield
            finally:
                if not self._left_files():
                    shutil.rmtree(self.path, ignore_errors=True)

    def differences(self, settings: Mapping[str, Any]) -> list[str]:
        """Name what differs from the job here, with values where these are short."""
        if not self.is_begun:
            return [_OTHER_VERSION] if self._left_files() else []
        return find_differences(self.settings, settings)

    def drop(self) -> None:
        """Drop whatever is here."""
        (self.path / STATE_FILE).unlink(missing_ok=True)  # first: what it tells of goes next
        self._state = {}
        self._remove(lambda path: not _is_lock(path))

    def begin(self, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Note what decides the outcome of a job that begins here, and what is known of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._state = {
            "version": _VERSION,
            "settings": dict(settings),
            "facts": dict(facts),
            "finished": {},
            "spent": {},
            "peaks": {},
        }
        self._write()

    def old_report(self, settings: Mapping[str, Any]) -> Any:
        """Read the report of a job that was finished with these settings; None without one."""
        if not self.report.exists():
            return None
        content = self._load(self.report)
        if self._model is None:
            return content if self.is_begun and self.settings == settings else None
        if content.get("settings") != settings:
            return None
        return content.get("report", content.get("trained"))  # as older versions called it

    def end(self, report: Mapping[str, Any]) -> None:
        """Write the report, then drop what only the job needed."""
        if self._model is None:
            self._save(self.report, report)
            self._remove(Path.is_dir)
        else:
            self._save(self.report, {"settings": self.settings, "report": report})
            shutil.rmtree(self.path, ignore_errors=True)

    # Stages -----------------------------------------------------------------------------------

    def finished(self, stage: str) -> dict[str, Any] | None:
        """Return what a finished stage found, None while it is not finished."""
        found: dict[str, Any] | None = self._state.get("finished", {}).get(stage)
        return found

    def found(self, stage: str) -> dict[str, Any]:
        """Return what a stage found that must be finished by now."""
        found: dict[str, Any] = self._state["finished"][stage]
        return found

    def finish(self, stage: str, found: Mapping[str, Any]) -> dict[str, Any]:
        """Note that a stage is finished, and what it found."""
        plain: dict[str, Any] = as_json(found)
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

    # Files ------------------------------------------------------------------------------------

    def _left_files(self) -> list[Path]:
        """List what is here beside the lock and files that were never completed."""
        if not self.path.is_dir():
            return []
        return [
            path for path in self.path.iterdir() if path.suffix != ".tmp" and not _is_lock(path)
        ]

    def _remove(self, is_meant: Callable[[Path], bool]) -> None:
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if is_meant(path) and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif is_meant(path):
                path.unlink()

    def _write(self) -> None:
        self._save(self.path / STATE_FILE, self._state)

    def _save(self, path: Path, content: Mapping[str, Any]) -> None:
        write_text_atomically(path, json.dumps(content, indent=1) + "\n")

    def _read(self) -> dict[str, Any]:
        path = self.path / STATE_FILE
        found = self._load(path) if path.exists() else {}
        return found if found.get("version") == _VERSION else {}

    def _load(self, path: Path) -> dict[str, Any]:
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise Damaged(
                f"{path} cannot be read ({error}); delete it, or begin again with --restart"
            ) from error


def _is_lock(path: Path) -> bool:
    """Whether a file is the lock, or its database's own."""
    return path.name.startswith(LOCK_FILE)


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON gives them back."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found


def find_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name the settings that differ, with their values where these are short.

    >>> find_differences({"pairs": "a", "glow": {"steps": 3}}, {"pairs": "b", "glow": {"steps": 4}})
    ['pairs', 'glow.steps was 3, is 4']
    """
    was, is_now = _flatten(before), _flatten(now)
    return [
        f"{name} was {was.get(name)}, is {is_now.get(name)}" if name.count(".") else name
        for name in {**is_now, **was}
        if was.get(name) != is_now.get(name)
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Name values by the way to them.

    >>> _flatten({"recipe": {"negatives": {"prefixes": True}}})
    {'recipe.negatives.prefixes': True}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flatten(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found
