"""What the training of a language model keeps on disk, and how it is told that it may go on.

Beside the folder that is to hold the model stands one named `.training` while it is made:

    settings.json   everything that decides what comes out; a run with others is refused
    training.bin    the samples as subwords, and held-out.bin those to judge by
    samples.json    how many they are, and held-out questions; written when the samples are whole
    plan.json       how many steps are trained, and what the model was worth before
    seconds.json    time that the stages took
    checkpoints/    where an interrupted training goes on

It is removed when the model is saved, which then carries its settings and report with it
(`quoth_training.json`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from quoth.artifact import FILE_NAME, write_text_atomically
from quoth.errors import ConfigError, Damaged
from quoth.jobs.glow.folder import REPORT_FILE, differences
from quoth.jobs.quoting.report import DynamicReport
from quoth.models.dynamic_lm.files import read_saved

SAMPLES, PLAN, SECONDS = "samples.json", "plan.json", "seconds.json"
_SETTINGS = "settings.json"


class TrainingFolder:
    """The folder that is to hold a model, and the one beside it."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.work = out.with_name(out.name + ".training")
        self.checkpoints = self.work / "checkpoints"

    def require_free(self, *, start: Path | None, base: str) -> None:
        """Refuse, before any work, to save over something else.

        `start` is the folder that training starts from, `base` the digest of its language model.
        """
        out = self.out
        if out.exists() and not out.is_dir():
            raise ConfigError(f"{out} is a file; name a new folder with --out")
        if start is not None and out.exists() and start.resolve() == out.resolve():
            raise ConfigError(
                f"{out} is what the collection answers with, and cannot be trained in place; name"
                " a new folder with --out, or what to start from with --answer.model"
            )
        if not out.is_dir() or not any(out.iterdir()):
            return
        if not (out / FILE_NAME).exists():
            raise ConfigError(f"{out} holds something else than a model; name a new folder")
        saved = read_saved(out)
        if saved.source.digest != base:
            raise ConfigError(
                f"{out} holds a model over another language model ({saved.source.name}); name a"
                " new folder with --out, or start from that one"
            )

    def prepare(self, settings: Mapping[str, Any], *, resume: bool) -> None:
        """Make the working folder, or make sure that what stands in it has these settings."""
        if not resume:
            shutil.rmtree(self.work, ignore_errors=True)
        kept = self.read(_SETTINGS)
        if kept is None:
            self.work.mkdir(parents=True, exist_ok=True)
            self.write(_SETTINGS, settings)
        elif differing := differences(kept, settings):
            raise ConfigError(
                f"{self.work} holds an unfinished training with other settings"
                f" ({', '.join(differing)}); use those, name another --out, or --restart"
            )

    def read(self, name: str) -> Any:
        """Read a file of the working folder; None where it was not written yet."""
        path = self.work / name
        return _read_json(path) if path.exists() else None

    def write(self, name: str, content: Any) -> None:
        """Write a file of the working folder."""
        write_text_atomically(self.work / name, json.dumps(content, indent=1) + "\n")

    def old_report(self, settings: Mapping[str, Any]) -> DynamicReport | None:
        """Read what an earlier training with these very settings did; None where there was none."""
        path = self.out / REPORT_FILE
        content = _read_json(path) if path.exists() else {}
        if content.get("settings") != settings:
            return None
        return replace(DynamicReport.from_record(content.get("report", {})), is_old=True)

    def finish(self, settings: Mapping[str, Any], report: DynamicReport) -> None:
        """Leave settings and report beside the model, and drop what was needed to go on."""
        content = {"settings": settings, "report": report.to_record()}
        write_text_atomically(self.out / REPORT_FILE, json.dumps(content, indent=1) + "\n")
        shutil.rmtree(self.work, ignore_errors=True)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Damaged(f"{path} cannot be read ({error}); train anew with --restart") from error
