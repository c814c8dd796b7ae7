"""Abstention fitted to a user's questions goes by the same signs as answering does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tiny_language_model import make_dynamic_lm

from quoth.answer.abstain import FEATURES
from quoth.answer.answerer import AnswerSettings
from quoth.jobs.quoting.judging import FEWEST_QUESTIONS, fit_to_questions
from quoth.jobs.quoting.samples import HeldOutQuestion
from quoth.search.searcher import ignore_progress


def test_nearness_counts_where_abstention_is_fitted(tmp_path: Path) -> None:
    questions = [
        HeldOutQuestion(f"Where is bird {at}?", ("It is near.",), ("It is far.",))
        for at in range(FEWEST_QUESTIONS)
    ]

    def encode(sentences: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[1.0, 4.0 * ("far" in each)] for each in sentences], dtype=np.float32)

    fitted = fit_to_questions(
        make_dynamic_lm(tmp_path),
        questions,
        AnswerSettings(),
        encode=encode,
        progress=ignore_progress,
    )
    assert fitted is not None
    assert dict(zip(FEATURES, fitted.weights, strict=True))["nearest sentence"] < 0.0
