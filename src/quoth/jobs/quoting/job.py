"""Train a language model to quote from a collection: what `quoth train dynamic-lm` is one call on.

What it learns from is made in `samples.py`, what it keeps on disk meanwhile is
described in `folder.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from quoth.answer.abstain import REFUSAL_ALONE, Abstention, save_abstention
from quoth.answer.answerer import AnswerSettings
from quoth.artifact import seal_file
from quoth.engine.engine import Engine
from quoth.engine.writing import install_model
from quoth.errors import Damaged
from quoth.jobs.quoting.corpus import Corpus
from quoth.jobs.quoting.folder import PLAN, SECONDS, TrainingFolder
from quoth.jobs.quoting.judging import FEWEST_QUESTIONS, fit_to_questions, judge
from quoth.jobs.quoting.pairs import LabelledQuestion, read_questions
from quoth.jobs.quoting.plan import fit_steps
from quoth.jobs.quoting.report import DynamicReport, HeldOutMeasures, read_measures
from quoth.jobs.quoting.samples import (
    Samples,
    epoch_steps,
    prepare_samples,
    usable_recipe,
)
from quoth.jobs.quoting.settings import DynamicSettings
from quoth.jobs.quoting.start import StartingModel, open_start
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.search.searcher import Progress
from quoth.settings.config import Config
from quoth.training.recipes.dynamic_lm import DynamicProgress, train_dynamic_lm
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe
from quoth.training.retriever.curriculum import peak_megabytes

_MOST_REPORTS = 200
_WARM_UP_STEPS, _TIMED_STEPS = 1, 4


@dataclass(frozen=True, slots=True)
class DynamicPlan:
    """What is to be trained, from what, and where."""

    out: Path
    settings: DynamicSettings
    pairs: Path | None = None
    resume: bool = True
    install: bool = False


def train_language_model(
    engine: Engine,
    plan: DynamicPlan,
    *,
    progress: Progress,
    note: Callable[[str], None] = lambda _text: None,
    until: int | None = None,
) -> DynamicReport | None:
    """Train, judge and save a model; an interrupted training goes on where it stopped.

    `until` stops after that step, as an interruption would, and gives no report.
    """
    folder, config = TrainingFolder(plan.out), engine.config
    start = open_start(config.answer.model, plan.settings, note=note)
    folder.require_free(start=start.folder, base=start.model.source.digest)
    corpus = Corpus(engine, plan.settings.training, progress)
    questions = read_questions(plan.pairs, corpus.docids) if plan.pairs is not None else []
    settings = _all_settings(plan, start, corpus)
    report = folder.old_report(settings) if plan.resume else None
    if report is None:
        folder.prepare(settings, resume=plan.resume)
        run = _Run(folder, plan.settings, start, progress=progress, note=note)
        report = run.train(engine.folder, corpus, questions, config=config, until=until)
        if report is None:
            return None
        folder.finish(settings, report)
    if plan.install:
        install_model(engine.folder, plan.out, wait_seconds=config.collection.wait_seconds)
        report = replace(report, is_installed=True)
    return report


def _all_settings(plan: DynamicPlan, start: StartingModel, corpus: Corpus) -> dict[str, Any]:
    """Return everything that decides what comes out."""
    return {
        "documents": corpus.digest,
        "pairs": seal_file(plan.pairs).sha256 if plan.pairs is not None else "",
        "start": start.digest,
        **plan.settings.to_record(),
    }


class _Run:
    """One training: samples, steps, the model before and after."""

    def __init__(
        self,
        folder: TrainingFolder,
        settings: DynamicSettings,
        start: StartingModel,
        *,
        progress: Progress,
        note: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._start = start
        self._progress = progress
        self._note = note
        self._seconds: dict[str, float] = folder.read(SECONDS) or {}

    def train(
        self,
        collection: Path,
        corpus: Corpus,
        questions: Sequence[LabelledQuestion],
        *,
        config: Config,
        until: int | None,
    ) -> DynamicReport | None:
        """Train and save; None where it was stopped before the end."""
        model = self._start.model
        with self._timed("samples"):
            samples = prepare_samples(
                self._folder,
                corpus,
                questions,
                model=model,
                settings=self._settings,
                progress=self._progress,
            )
        recipe, before = self._plan(samples)
        with self._timed("training"):
            trained, report = train_dynamic_lm(
                model,
                samples.training,
                config=recipe,
                device=self._settings.device,
                progress=lambda done: self._tell(done, recipe.steps),
                checkpoint=self._folder.checkpoints,
                until=until,
            )
        if report.training.steps < recipe.steps:
            return None
        with self._timed("judging"):
            after = judge(trained, samples.held_out, progress=self._progress)
            abstention, whence = self._calibrate(trained, samples, config)
        self._save(trained, abstention)
        return DynamicReport(
            collection=str(collection),
            model=str(self._folder.out),
            start=self._start.name,
            device=str(self._settings.device),
            seed=self._settings.training.seed,
            counts=samples.counts,
            steps=report.training.steps,
            losses=report.training.losses,
            before=before,
            after=after,
            abstention=whence,
            seconds={name: round(seconds, 2) for name, seconds in self._seconds.items()},
            peak_megabytes=round(peak_megabytes(self._settings.device), 1),
        )

    def _plan(self, samples: Samples) -> tuple[DynamicLMRecipe, HeldOutMeasures]:
        """Decide how many steps are trained, and judge the model before; once, then it is kept."""
        recipe = usable_recipe(self._settings, samples.training)
        told = self._folder.read(PLAN)
        if told is None:
            with self._timed("judging"):
                before = judge(self._start.model, samples.held_out, progress=self._progress)
            steps = self._settings.training.steps or self._steps_that_fit(samples, recipe)
            told = {"steps": steps, "before": asdict(before)}
            self._folder.write(PLAN, told)
            self._note(
                f"the plan: {steps:,} steps on {len(samples.training.texts):,} texts and"
                f" {len(samples.training.quotations):,} quotations ({self._settings.device})"
            )
        try:
            steps, before = int(told["steps"]), read_measures(told["before"])
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(f"{self._folder.work / PLAN} cannot be read ({error})") from error
        every = recipe.report_every
        if "recipe.report_every" not in self._settings.given:
            every = max(1, steps // _MOST_REPORTS)
        return replace(recipe, steps=steps, report_every=every), before

    def _steps_that_fit(self, samples: Samples, recipe: DynamicLMRecipe) -> int:
        """Time a few steps, the first of which warms up, and see how many fit."""
        clock: list[float] = []

        def tell(done: DynamicProgress) -> None:
            self._progress("timing steps", done.step, short.steps)
            clock.append(time.perf_counter())

        steps = _WARM_UP_STEPS + _TIMED_STEPS
        short = replace(recipe, steps=steps, report_every=1, checkpoint_every=0)
        with self._timed("planning"):
            train_dynamic_lm(
                self._start.model,
                samples.training,
                config=short,
                device=self._settings.device,
                progress=tell,
            )
        return fit_steps(
            self._settings.training,
            seconds_per_step=max((clock[-1] - clock[_WARM_UP_STEPS - 1]) / _TIMED_STEPS, 1e-6),
            spent=sum(self._seconds.values()) + self._seconds["judging"],  # as long again after
            epoch_steps=epoch_steps(samples.training, recipe),
        )

    def _calibrate(
        self, trained: DynamicLM, samples: Samples, config: Config
    ) -> tuple[Abstention | None, str]:
        """Fit abstention to held-out questions, or keep that of the model it started from."""
        settings = AnswerSettings(answer=config.answer, candidates=config.candidates)
        asked = samples.questions[: self._settings.training.judged]
        fitted = fit_to_questions(trained, asked, settings, progress=self._progress)
        if fitted is not None:
            return fitted, f"fitted to {len(asked):,} held-out questions, with and without answer"
        if self._start.abstention not in (None, REFUSAL_ALONE):
            return self._start.abstention, f"as in {self._start.name}"
        return None, (
            f"by the model's own refusals; {len(asked):,} held-out questions are fewer than"
            f" {FEWEST_QUESTIONS}"
        )

    def _save(self, trained: DynamicLM, abstention: Abstention | None) -> None:
        self._progress("saving", 0, 0)
        trained.save(self._folder.out)
        if abstention is not None:
            save_abstention(self._folder.out, abstention)

    def _tell(self, done: DynamicProgress, steps: int) -> None:
        self._progress("training", done.step, steps)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Add the time of a stage to what it took before, interrupted or not."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self._seconds[stage] = self._seconds.get(stage, 0.0) + spent
            self._folder.write(SECONDS, self._seconds)
