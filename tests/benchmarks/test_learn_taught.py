"""Fitting a reranker to what a teacher says: the loss, and that a likelihood is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from benchmarks.learn.taught import Lesson, Teacher, taught_loss
from tiny_reader import make_reader

from quoth.models.reader.inputs import TitledText
from quoth.training.recipes.fitted_reader import FitExample, FitRecipe, OpenReader, pad_pairs

CPU = torch.device("cpu")
PASSAGES = tuple(TitledText("", text) for text in ("the barn owl", "a raven at night", "hen"))
EXAMPLES = [FitExample(query, PASSAGES) for query in ("owl", "night", "hen")]


def test_the_loss_is_least_at_what_is_taught() -> None:
    scores = torch.tensor([1.0, 0.0, -1.0], requires_grad=True)
    lesson = Lesson(temperature=2.0)
    taught_loss(scores, torch.softmax(scores.detach() / 2.0, 0), lesson).backward()
    assert scores.grad is not None and scores.grad.abs().max() < 1e-6
    fixed = scores.detach()
    own = taught_loss(fixed, torch.ones(3) / 3, Lesson(own=1.0))
    assert float(own) == pytest.approx(-float(torch.log_softmax(fixed, 0)[0]))


def test_a_reranker_learns_what_a_generator_finds_likely(tmp_path: Path) -> None:
    def score(queries: Sequence[str], passages: Sequence[str]) -> np.ndarray:
        return np.array([0.0 if "raven" in each else -50.0 for each in passages], np.float32)

    models = SimpleNamespace(generator=lambda _name: SimpleNamespace(score=score))
    teacher = Teacher(models, {"small": "any"})  # type: ignore[arg-type]
    teacher.lesson = Lesson("small", 1.0, 1.0)
    reader = OpenReader(make_reader(tmp_path).folder)
    recipe = FitRecipe(steps=40, batch_size=3, learning_rate=5e-3, max_subwords=32)
    teacher.fit(reader, EXAMPLES, recipe, device=CPU)
    for each in EXAMPLES:
        read = reader.inputs.pairs([each.query] * 3, PASSAGES)
        with torch.inference_mode():
            assert int(reader.network(pad_pairs(read, CPU)).relevance.argmax()) == 1
