"""Judge a PIXAR model while it is trained, and end with the best state it passed through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from quoth.training.best_state import BestState
from quoth.training.loop import BeforeStep, TrainingReport
from quoth.training.loop_config import LoopConfig

Validate = Callable[[nn.Module], float]
"""Scores a model that is trained; higher is better."""


class Judge:
    """Validates and keeps the best state, also over an interruption."""

    def __init__(self, validate: Validate | None, best: BestState | None, loop: LoopConfig) -> None:
        self._validate = validate
        self._best = best
        self._loop = loop
        self._step = 0

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to validate by."""
        return self._validate is not None and self._loop.validate_every > 0

    def before_step(self, others: BeforeStep) -> BeforeStep:
        """Note which step follows, before others do their part."""

        def note(step: int) -> str:
            self._step = step
            return others(step)

        return note

    def validate(self, model: nn.Module) -> float:
        """Score a model, and keep its state if it is the best so far."""
        assert self._validate is not None
        score = self._validate(model)
        if self._best is not None:
            self._best.offer(model, score, step=self._step)
        return score

    def end(self, model: nn.Module, report: TrainingReport) -> TrainingReport:
        """Validate the last step unless it was, and put the best state into the model."""
        seen = report.validations
        is_unseen = not seen or seen[-1][0] != report.steps
        if self.is_wanted and is_unseen and report.steps == self._loop.steps:
            self._step = report.steps
            seen = (*seen, (report.steps, self.validate(model)))
        if self._best is not None:
            self._best.restore(model)
        return replace(report, validations=seen)
