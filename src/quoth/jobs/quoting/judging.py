"""What a language model is worth on held-out documents, and its calibration of abstention.

The yardstick is the same before and after, whatever is trained: texts with phrases drawn as runs of
words, quotations with the phrases of their passages, both with prefixes and extensions beside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from quoth.answer.abstain import Abstention, fit_abstention
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.answer.nearness import EncodeSentences
from quoth.jobs.quoting.report import HeldOutMeasures, PhraseScores
from quoth.jobs.quoting.samples import HeldOutQuestion
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.records import Passage, Span
from quoth.search.searcher import Progress
from quoth.training.loop import Progress as StepProgress
from quoth.training.quoting.batches import BatchMaker
from quoth.training.quoting.negatives_config import NegativesConfig
from quoth.training.quoting.set import DynamicSet
from quoth.training.recipes.dynamic_lm import DynamicModule, plain_loss
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

FEWEST_QUESTIONS = 8
"""Held-out questions that abstention is fitted to, at least."""

_BATCH = 2


def judge(model: DynamicLM, held_out: DynamicSet, *, progress: Progress) -> HeldOutMeasures:
    """Measure a model on held-out samples, the text being known."""
    progress("judging by held-out documents", 0, 0)
    scores = {}
    for name, share, count in (
        ("texts", 0.0, len(held_out.texts)),
        ("quotations", 1.0, len(held_out.quotations)),
    ):
        if count:
            scores[name] = _score(model, held_out, share=share, count=count)
    loss = plain_loss(model.network, held_out.texts, batch_size=_BATCH)
    return HeldOutMeasures(math.exp(min(loss, 700.0)), scores)


@torch.inference_mode()
def _score(model: DynamicLM, held_out: DynamicSet, *, share: float, count: int) -> PhraseScores:
    recipe = DynamicLMRecipe(
        negatives=NegativesConfig(generation=False),
        plain_weight=0.0,
        kl_weight=0.0,
        quote_share=share,
        batch_size=_BATCH,
        quote_batch_size=_BATCH,
    )
    unfolds = model.config.phrase_input == "unfold"
    module = DynamicModule(model.network, recipe, unfolds=unfolds).eval()
    maker = BatchMaker(held_out, recipe, mark=model.passage_marker)
    size = min(_BATCH, count)
    numbers = range(count // size)
    for number in numbers:
        module(maker[number].to(model.device))
    found = module.tally.report(StepProgress(0, 0.0, 0.0))
    return PhraseScores(
        len(numbers) * size, found.mixed, found.phrase_recall, found.phrase_precision
    )


def fit_to_questions(
    model: DynamicLM,
    questions: Sequence[HeldOutQuestion],
    settings: AnswerSettings,
    *,
    encode: EncodeSentences,
    progress: Progress,
) -> Abstention | None:
    """Fit abstention to held-out questions with and without an answer; None where too few.

    `encode` is what answering encodes sentences with: nearness is the strongest of the signs.
    """
    if len(questions) < FEWEST_QUESTIONS:
        return None
    answerer = Answerer(model, settings, encode=encode)
    cases = [(each.question, each.answered, False) for each in questions]
    cases += [(each.question, each.refused, True) for each in questions]
    features = []
    for start in range(0, len(cases), _BATCH):
        progress("fitting abstention", start, len(cases))
        own = cases[start : start + _BATCH]
        passages = [[_as_passage(text) for text in texts] for _question, texts, _label in own]
        features.append(answerer.features([question for question, *_ in own], passages))
    return fit_abstention(np.concatenate(features), [label for *_, label in cases])


def _as_passage(text: str) -> Passage:
    return Passage("", "text", Span(0, len(text)), text)
