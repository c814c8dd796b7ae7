"""Train a language model to quote from a collection: what `quoth train dynamic-lm` is one call on.

    documents → samples → judging → plan → training → judging → model

What it learns from is made in `samples.py`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from quoth.answer.abstain import REFUSAL_ALONE, Abstention, save_abstention
from quoth.answer.answerer import AnswerSettings
from quoth.artifact import FILE_NAME, seal_file
from quoth.engine.language_model import find_base
from quoth.engine.models import LoadedModels
from quoth.engine.writing import install_model
from quoth.errors import ConfigError
from quoth.jobs.job import Job, Work, run_job
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.quoting.corpus import Corpus
from quoth.jobs.quoting.judging import FEWEST_QUESTIONS, fit_to_questions, judge
from quoth.jobs.quoting.pairs import LabelledQuestion, read_questions
from quoth.jobs.quoting.plan import fit_steps
from quoth.jobs.quoting.report import DynamicReport, HeldOutMeasures
from quoth.jobs.quoting.samples import (
    Samples,
    epoch_steps,
    make_samples,
    open_samples,
    usable_recipe,
)
from quoth.jobs.quoting.settings import DynamicSettings
from quoth.jobs.quoting.start import StartingModel, open_start
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, open_dynamic_lm
from quoth.models.dynamic_lm.files import read_saved
from quoth.search.searcher import Progress
from quoth.shards.engine import ShardedEngine
from quoth.shards.installing import install_answering
from quoth.shards.opening import OpenedEngine
from quoth.training.recipes.dynamic_lm import DynamicProgress, train_dynamic_lm
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe
from quoth.training.retriever.curriculum import peak_megabytes

_MOST_REPORTS = 200
_WARM_UP_STEPS, _TIMED_STEPS = 1, 4


@dataclass(frozen=True, slots=True)
class DynamicRequest:
    """What is to be trained, from what, and where."""

    out: Path
    settings: DynamicSettings
    pairs: Path | None = None
    resume: bool = True
    install: bool = False


def train_language_model(
    engine: OpenedEngine,
    request: DynamicRequest,
    *,
    progress: Progress,
    note: Callable[[str], None] = lambda _text: None,
) -> DynamicReport:
    """Train, judge and save a model; an interrupted training goes on where it stopped."""
    start = open_start(engine.config.answer.model, request.settings, note=note)
    _require_free(request.out, start)
    corpus = Corpus(engine, request.settings.training, progress)
    questions = read_questions(request.pairs, corpus.docids) if request.pairs is not None else []
    job = DynamicJob(
        engine, request, start, corpus=corpus, questions=questions, progress=progress, note=note
    )
    outcome = run_job(job, restart=not request.resume)
    assert outcome.report is not None
    if request.install:
        _install(engine, request.out)
    return replace(outcome.report, is_old=outcome.is_old, is_installed=request.install)


def _install(engine: OpenedEngine, model: Path) -> None:
    """Let a collection answer with a model, all of its shards at once where it has some."""
    wait = engine.config.collection.wait_seconds
    if isinstance(engine, ShardedEngine):
        install_answering(engine.shards, model, wait_seconds=wait)
    else:
        install_model(engine.folder, model, wait_seconds=wait)


class DynamicJob(Job[DynamicReport]):
    """One training: samples, steps, the model before and after."""

    report_type = DynamicReport

    def __init__(
        self,
        engine: OpenedEngine,
        request: DynamicRequest,
        start: StartingModel,
        *,
        corpus: Corpus,
        questions: Sequence[LabelledQuestion],
        progress: Progress,
        note: Callable[[str], None],
    ) -> None:
        super().__init__(JobFolder.beside(request.out), note=note)
        self._engine = engine
        self._request = request
        self._settings = request.settings
        self._start = start
        self._corpus = corpus
        self._questions = questions
        self._progress = progress

    def settings(self) -> dict[str, Any]:
        """Return everything that decides what comes out."""
        pairs = self._request.pairs
        return {
            "documents": self._corpus.digest,
            "pairs": seal_file(pairs).sha256 if pairs is not None else "",
            "start": self._start.digest,
            **self._settings.to_record(),
        }

    def stages(self) -> Mapping[str, Work]:
        """Return the stages, in their order."""
        return {
            "samples": self.samples,
            "judge before": lambda: self._judge(self._start.model),
            "plan": self.steps,
            "training": self.training,
            "judge after": lambda: self._judge(self._trained),
            "save": self.save,
        }

    def samples(self) -> dict[str, Any]:
        """Make what is trained on and what is judged by."""
        return make_samples(
            self.folder.path,
            self._corpus,
            self._questions,
            model=self._start.model,
            settings=self._settings,
            progress=self._progress,
        )

    def steps(self) -> dict[str, Any]:
        """Decide how many steps are trained: once, so that a resumed training plans no other."""
        steps = self._settings.training.steps or self._steps_that_fit()
        training = self._samples.training
        self.note(
            f"the plan: {steps:,} steps on {len(training.texts):,} texts and"
            f" {len(training.quotations):,} quotations ({self._settings.device})"
        )
        return {"steps": steps}

    def training(self) -> dict[str, Any]:
        """Train, from the last checkpoint on, and keep the model in full precision."""
        recipe = self._recipe()
        trained, report = train_dynamic_lm(
            self._start.model,
            self._samples.training,
            config=recipe,
            device=self._settings.device,
            progress=lambda done: self._tell(done, recipe.steps),
            checkpoint=self.folder.path / "checkpoints",
        )
        trained.save(self._model, dtype="fp32")
        self._trained = trained
        return {"steps": report.training.steps, "losses": report.training.losses}

    def save(self) -> dict[str, Any]:
        """Calibrate when to abstain, and put the model where it is wanted."""
        out = self._request.out
        abstention, whence = self._calibrate()
        self._progress("saving", 0, 0)
        self._trained.save(out)
        if abstention is not None:
            save_abstention(out, abstention)
        return {"abstention": whence}

    def report(self) -> DynamicReport:
        """Put together what the stages found."""
        folder, device = self.folder, self._settings.device
        trained = folder.found("training")
        before, after = (
            HeldOutMeasures.from_record(folder.found(name))
            for name in ("judge before", "judge after")
        )
        return DynamicReport(
            collection=str(self._engine.folder),
            model=str(self._request.out),
            start=self._start.name,
            device=str(device),
            seed=self._settings.training.seed,
            counts=folder.found("samples")["counts"],
            steps=trained["steps"],
            losses=tuple((step, loss) for step, loss in trained["losses"]),
            before=before,
            after=after,
            abstention=folder.found("save")["abstention"],
            seconds={name: folder.seconds(name) for name in self.stages()},
            peak_megabytes=round(peak_megabytes(device), 1),
        )

    @property
    def _model(self) -> Path:
        return self.folder.path / "model"

    @functools.cached_property
    def _samples(self) -> Samples:
        return open_samples(self.folder.path, self.folder.found("samples"))

    @functools.cached_property
    def _trained(self) -> DynamicLM:
        base = find_base(read_saved(self._model))
        return open_dynamic_lm(self._model, base=base, device=self._settings.device)

    def _judge(self, model: DynamicLM) -> dict[str, Any]:
        return asdict(judge(model, self._samples.held_out, progress=self._progress))

    def _recipe(self) -> DynamicLMRecipe:
        recipe = usable_recipe(self._settings, self._samples.training)
        steps = int(self.folder.found("plan")["steps"])
        every = recipe.report_every
        if "recipe.report_every" not in self._settings.given:
            every = max(1, steps // _MOST_REPORTS)
        return replace(recipe, steps=steps, report_every=every)

    def _steps_that_fit(self) -> int:
        """Time a few steps, the first of which warms up, and see how many fit."""
        recipe = usable_recipe(self._settings, self._samples.training)
        clock: list[float] = []

        def tell(done: DynamicProgress) -> None:
            self._progress("timing steps", done.step, short.steps)
            clock.append(time.perf_counter())

        begun = time.perf_counter()
        steps = _WARM_UP_STEPS + _TIMED_STEPS
        short = replace(recipe, steps=steps, report_every=1, checkpoint_every=0)
        train_dynamic_lm(
            self._start.model,
            self._samples.training,
            config=short,
            device=self._settings.device,
            progress=tell,
        )
        judging = self.folder.seconds("judge before")  # as long again after
        spent = self.folder.seconds("samples") + 2 * judging + time.perf_counter() - begun
        return fit_steps(
            self._settings.training,
            seconds_per_step=max((clock[-1] - clock[_WARM_UP_STEPS - 1]) / _TIMED_STEPS, 1e-6),
            spent=spent,
            epoch_steps=epoch_steps(self._samples.training, recipe),
        )

    def _calibrate(self) -> tuple[Abstention | None, str]:
        """Fit abstention to held-out questions, or keep that of the model it started from."""
        config = self._engine.config
        settings = AnswerSettings(answer=config.answer, candidates=config.candidates)
        asked = self._samples.questions[: self._settings.training.judged]
        fitted = fit_to_questions(
            self._trained,
            asked,
            settings,
            encode=LoadedModels().sentence_encoder(),
            progress=self._progress,
        )
        if fitted is not None:
            return fitted, f"fitted to {len(asked):,} held-out questions, with and without answer"
        if self._start.abstention not in (None, REFUSAL_ALONE):
            return self._start.abstention, f"as in {self._start.name}"
        return None, (
            f"by the model's own refusals; {len(asked):,} held-out questions are fewer than"
            f" {FEWEST_QUESTIONS}"
        )

    def _tell(self, done: DynamicProgress, steps: int) -> None:
        self._progress("training", done.step, steps)


def _require_free(out: Path, start: StartingModel) -> None:
    """Refuse, before any work, to save over something else."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; name a new folder with --out")
    if start.folder is not None and out.exists() and start.folder.resolve() == out.resolve():
        raise ConfigError(
            f"{out} is what the collection answers with, and cannot be trained in place; name"
            " a new folder with --out, or what to start from with --answer.model"
        )
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / FILE_NAME).exists():
        raise ConfigError(f"{out} holds something else than a model; name a new folder")
    saved = read_saved(out)
    if saved.source.digest != start.model.source.digest:
        raise ConfigError(
            f"{out} holds a model over another language model ({saved.source.name}); name a"
            " new folder with --out, or start from that one"
        )
