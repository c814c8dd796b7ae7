"""Run a job: long work in named stages, which the same call resumes after an interruption.

`quoth learn` and `quoth train` all come through `run_job`. A job says what decides its outcome, in
which stages it is done and what its report is; everything else is here and in `job_folder.py`. Each
stage is finished once and noted, so a resumed job gives what an uninterrupted one would have given.
Stages that take long also go on inside, from checkpoints or from pieces of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from quoth.errors import ConfigError
from quoth.interruption import check_interruption
from quoth.jobs.job_folder import JobFolder, as_json
from quoth.jobs.job_record import JobRecord
from quoth.training.retriever.curriculum import peak_megabytes

Work = Callable[[], Mapping[str, Any]]
"""Does a stage and returns what later stages and the report need of it, as plain values."""

R = TypeVar("R", bound=JobRecord)


class Job(ABC, Generic[R]):
    """Work on one folder: what decides it, its stages, and its report.

    A stage reads what it needs of earlier ones from the folder, so it makes no difference whether
    they ran now or in an interrupted run before.
    """

    report_type: type[R]
    drops_others = False
    """Whether an unfinished job with other settings is dropped, and the user told, or refused."""

    def __init__(
        self, folder: JobFolder, *, note: Callable[[str], None] = lambda _text: None
    ) -> None:
        """Work in a folder; `note` is told what a user should know."""
        self.folder = folder
        self.note = note

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Return everything that decides what comes out."""

    def plan(self) -> Mapping[str, Any]:
        """Return what is noted at the beginning; refuse what cannot be begun."""
        return {}

    @abstractmethod
    def stages(self) -> Mapping[str, Work]:
        """Return the stages, in their order."""

    @abstractmethod
    def report(self) -> R:
        """Put the report together, once all stages are finished."""


@dataclass(frozen=True, slots=True)
class JobOutcome(Generic[R]):
    """What a call came to; no report where it was to stop before a stage."""

    report: R | None
    is_old: bool = False
    """Whether this is the report of an earlier call with the same settings."""


def run_job(job: Job[R], *, restart: bool = False, before: str = "") -> JobOutcome[R]:
    """Do what is left of a job and report; `before` names a stage to stop before."""
    folder = job.folder
    with folder.locked():
        settings = as_json(job.settings())
        if not restart and (old := folder.old_report(settings)) is not None:
            return JobOutcome(job.report_type.from_record(old), is_old=True)
        if restart or not _goes_on(job, settings):
            facts = as_json(job.plan())
            folder.drop()
            folder.begin(as_json(job.settings()), facts)  # which may go by what was begun before
        for name, work in job.stages().items():
            if name == before:
                return JobOutcome(None)
            if folder.finished(name) is None:
                _do(folder, name, work)
        report = job.report()
        folder.end(report.to_record())
        return JobOutcome(report)


def _goes_on(job: Job[R], settings: Mapping[str, Any]) -> bool:
    """Whether what is on disk belongs to this very call."""
    folder = job.folder
    differing = folder.differences(settings)
    if differing and not folder.is_finished:
        told = ", ".join(differing)
        if not job.drops_others:
            raise ConfigError(
                f"{folder.path} holds an unfinished training with other settings ({told}); use"
                " those, name another --out, or --restart"
            )
        job.note(f"an unfinished job in {folder.path} is dropped, as this differs: {told}")
    return folder.is_begun and not differing


def _do(folder: JobFolder, name: str, work: Work) -> None:
    check_interruption()
    with folder.clock(name):
        found = work()
    folder.note_peak(name, peak_megabytes())
    folder.finish(name, found)
