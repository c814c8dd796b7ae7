"""The mechanism of all jobs: stages done once, resumed, refused, dropped, locked and reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quoth.errors import Busy, ConfigError, Damaged, Interrupted
from quoth.interruption import Interruption, interruptible
from quoth.jobs.job import Job, JobOutcome, Work, run_job
from quoth.jobs.job_folder import MODEL_REPORT_FILE, REPORT_FILE, STATE_FILE, JobFolder
from quoth.jobs.job_record import JobRecord

STAGES = ("gather", "count", "save")


@dataclass(frozen=True, slots=True)
class Counted(JobRecord):
    """What the small job below reports."""

    total: int
    seed: int


class CountingJob(Job[Counted]):
    """Writes three pieces, counts their letters, and saves the count."""

    report_type = Counted

    def __init__(self, folder: JobFolder, *, seed: int = 0, **named: Any) -> None:
        super().__init__(folder, **named)
        self._seed = seed
        self.worked: list[str] = []
        self.check: Callable[[str], None] = lambda _moment: None

    def settings(self) -> Mapping[str, Any]:
        return {"count": {"seed": self._seed}, "pieces": ("a", "bb", "ccc")}

    def plan(self) -> Mapping[str, Any]:
        if self._seed < 0:
            raise ConfigError("the seed is negative")
        return {"seed": self._seed}

    def stages(self) -> Mapping[str, Work]:
        return {"gather": self.gather, "count": self.count, "save": self.save}

    def report(self) -> Counted:
        return Counted(self.folder.found("count")["total"], self.folder.fact("seed"))

    def gather(self) -> dict[str, Any]:
        pieces = self.folder.path / "pieces"
        pieces.mkdir(exist_ok=True)
        for at, text in enumerate(("a", "bb", "ccc")):
            path = pieces / str(at)
            if not path.exists():
                self.worked.append(f"piece {at}")
                path.write_text(text)
            self.check(f"piece {at}")
        return {"pieces": 3}

    def count(self) -> dict[str, Any]:
        self.worked.append("count")
        texts = [path.read_text() for path in (self.folder.path / "pieces").iterdir()]
        return {"total": sum(map(len, texts))}

    def save(self) -> dict[str, Any]:
        self.worked.append("save")
        (self.folder.path / "saved").write_text(str(self.folder.found("count")["total"]))
        return {}


class DroppingJob(CountingJob):
    """The same, but in the way of nobody."""

    drops_others = True


def run(path: Path, **named: Any) -> JobOutcome[Counted]:
    return run_job(CountingJob(JobFolder(path)), **named)


def stop_at(wanted: str) -> Callable[[str], None]:
    def check(moment: str) -> None:
        if moment == wanted:
            raise KeyboardInterrupt

    return check


def test_a_job_is_done_once_and_then_only_read(tmp_path: Path) -> None:
    job = CountingJob(JobFolder(tmp_path / "job"))
    assert run_job(job) == JobOutcome(Counted(6, 0))
    assert job.worked == ["piece 0", "piece 1", "piece 2", "count", "save"]
    assert json.loads((tmp_path / "job" / REPORT_FILE).read_text()) == {"total": 6, "seed": 0}
    assert (tmp_path / "job" / "saved").exists() and not (tmp_path / "job" / "pieces").exists()
    again = CountingJob(JobFolder(tmp_path / "job"))
    assert run_job(again) == JobOutcome(Counted(6, 0), is_old=True) and again.worked == []
    assert run_job(again, restart=True) == JobOutcome(Counted(6, 0)) and len(again.worked) == 5


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_was_finished_is_not_done_again(
    tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = JobFolder.finish

    def stop(self: JobFolder, name: str, found: Mapping[str, Any]) -> dict[str, Any]:
        noted = finish(self, name, found)
        if name == stage:
            raise KeyboardInterrupt
        return noted

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(JobFolder, "finish", stop)
        run(tmp_path / "job")
    job = CountingJob(JobFolder(tmp_path / "job"))
    assert run_job(job).report == Counted(6, 0)
    assert job.worked == ["count", "save"][STAGES.index(stage) :]


def test_inside_a_stage_it_goes_on_from_what_the_stage_wrote(tmp_path: Path) -> None:
    job = CountingJob(JobFolder(tmp_path / "job"))
    job.check = stop_at("piece 1")
    with pytest.raises(KeyboardInterrupt):
        run_job(job)
    spent = JobFolder(tmp_path / "job").seconds("gather")
    again = CountingJob(JobFolder(tmp_path / "job"))
    assert run_job(again).report == Counted(6, 0)
    assert again.worked == ["piece 2", "count", "save"]
    assert again.folder.seconds("gather") >= spent
    assert again.folder.peak("count") > 0


def test_it_stops_before_a_stage_and_between_stages_where_asked(tmp_path: Path) -> None:
    assert run(tmp_path / "job", before="save") == JobOutcome(None)
    given = Interruption()
    given.stop()
    with interruptible(given), pytest.raises(Interrupted):
        run(tmp_path / "job")
    assert run(tmp_path / "job").report == Counted(6, 0)


def test_other_settings_are_refused_or_dropped(tmp_path: Path) -> None:
    run(tmp_path / "job", before="count")
    other = CountingJob(JobFolder(tmp_path / "job"), seed=3)
    with pytest.raises(ConfigError, match=r"count\.seed was 0, is 3.*--restart"):
        run_job(other)
    told: list[str] = []
    refused = DroppingJob(JobFolder(tmp_path / "job"), seed=-1, note=told.append)
    with pytest.raises(ConfigError, match="negative"):
        run_job(refused)
    assert JobFolder(tmp_path / "job").finished("gather") is not None  # nothing was dropped
    dropping = DroppingJob(JobFolder(tmp_path / "job"), seed=3, note=told.append)
    assert run_job(dropping).report == Counted(6, 3) and len(dropping.worked) == 5
    assert "is dropped, as this differs: count.seed was 0, is 3" in told[-1]
    fourth = CountingJob(JobFolder(tmp_path / "job"), seed=4)
    assert run_job(fourth).report == Counted(6, 4)  # a finished one is in nobody's way


def test_a_report_is_kept_with_the_model_that_a_job_makes(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    job = CountingJob(JobFolder.beside(model))
    assert run_job(job) == JobOutcome(Counted(6, 0))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    saved = json.loads((model / MODEL_REPORT_FILE).read_text())
    assert saved["report"] == {"total": 6, "seed": 0}
    assert saved["settings"] == {"count": {"seed": 0}, "pieces": ["a", "bb", "ccc"]}
    assert run_job(CountingJob(JobFolder.beside(model))).is_old
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    saved["trained"] = saved.pop("report")  # as older versions wrote it
    (model / MODEL_REPORT_FILE).write_text(json.dumps(saved))
    assert run_job(CountingJob(JobFolder.beside(model))).is_old
    assert not run_job(CountingJob(JobFolder.beside(model), seed=1)).is_old


def test_one_process_works_in_a_folder_at_a_time(tmp_path: Path) -> None:
    first = JobFolder(tmp_path / "job")
    with first.locked(), pytest.raises(Busy, match="another process works in"):
        run(tmp_path / "job")
    assert not (tmp_path / "job").exists()
    assert run(tmp_path / "job").report == Counted(6, 0)


def test_what_an_older_version_left_is_refused_or_dropped(tmp_path: Path) -> None:
    (tmp_path / "job" / "checkpoints").mkdir(parents=True)
    (tmp_path / "job" / "settings.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"\(version of Quoth\); .* --restart"):
        run(tmp_path / "job")
    assert (tmp_path / "job" / "checkpoints").exists()
    assert run(tmp_path / "job", restart=True).report == Counted(6, 0)
    assert not (tmp_path / "job" / "settings.json").exists()
    (tmp_path / "job" / STATE_FILE).write_text("{")
    with pytest.raises(Damaged, match=r"state\.json cannot be read"):
        JobFolder(tmp_path / "job")
