"""Settings that train a dynamic language model, every ablation among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from quoth.constraints import (
    FREE,
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    NonNegative,
    Positive,
    Range,
    Seed,
    Share,
    ShareBelowOne,
)
from quoth.selfsupervision.sampling_config import PhraseSamplingConfig
from quoth.training.loop_config import LoopConfig
from quoth.training.quoting.negatives_config import NegativesConfig

QuoteColumns = Literal["own", "batch"]
KLAlign = Literal["after", "literal"]


@dataclass(frozen=True, slots=True)
class DynamicLMRecipe(CheckedConfig, title="recipe"):
    """What a dynamic language model learns, and how.

    `without_phrases` is the plain fine-tuned model; the output-only ablation is a setting of the
    model (`phrase_input` unfold), in which the mixed run is the plain one.
    """

    sampling: PhraseSamplingConfig = field(default_factory=PhraseSamplingConfig)
    """Which stretches of texts become phrases."""

    negatives: NegativesConfig = field(default_factory=NegativesConfig)
    """Which phrases are offered beside the right ones."""

    mixed_weight: NonNegative = 1.0
    """Weight of L_p, the loss over subwords and phrases; 0 disables it."""

    choice_weight: NonNegative = 1.0
    """Weight of an additional loss, not in the paper: choosing the right phrase among phrases
    alone.

    L_p learns this only as fast as phrases gain probability, and they begin by losing it."""

    sentence_weight: NonNegative = 1.0
    """Weight of another additional loss: choosing the sentence in which a quotation begins, the one
    that answers or one of the nearest that do not, summed over the phrases that begin in each."""

    plain_weight: NonNegative = 1.0
    """Weight of L_t, the loss of the same text without phrases; 0 disables it."""

    kl_weight: NonNegative = 1.0
    """Weight of L_kl, the divergence between the passes with and without phrases; 0 disables it."""

    kl_align: KLAlign = "after"
    """after compares the two passes where they have read the same text; literal compares the
    prediction of a token with that of its last subword, as the paper's formula is written."""

    kl_detach: bool = True
    """Let only the pass with phrases receive the gradient of L_kl."""

    kl_skip_phrases: bool = True
    """Skip positions where a phrase comes next, the only ones where the alignments differ."""

    quote_share: Share = 0.0
    """Share of batches that are quotations; the others are texts."""

    quote_columns: QuoteColumns = "own"
    """own offers a quotation the phrases of its own passages, as in answering; batch offers those
    of all quotations in the batch."""

    candidate_budget: AtLeastZero = 128
    """Positions per quotation at which candidate phrases begin; those near quoted phrases are
    always included."""

    max_candidate_subwords: Annotated[int, Range(2)] = 8
    """Maximum subwords of a candidate phrase in a quotation."""

    steps: AtLeastOne = 3000
    """Optimiser steps."""

    batch_size: AtLeastOne = 16
    """Texts per batch."""

    quote_batch_size: AtLeastOne = 8
    """Quotations per batch."""

    accumulate: AtLeastOne = 1
    """Batches whose gradients are accumulated for one step."""

    learning_rate: Positive = 5e-4
    """Peak learning rate of adapters and of the phrase encoder; 5e-5 suits tuning = full."""

    warm_up: ShareBelowOne = 0.05
    """Share of the steps over which the learning rate rises; then it falls linearly to 0."""

    weight_decay: Annotated[float, FREE] = 0.01
    """Weight decay of matrices."""

    clip: Positive = 1.0
    """Maximum gradient norm; larger gradients are scaled down to it."""

    report_every: AtLeastOne = 50
    """Steps between reports."""

    checkpoint_every: AtLeastZero = 0
    """Steps between checkpoints; 0 writes none."""

    seed: Seed = 0
    """Seed of the order of samples, their phrases and negatives, and the dropout."""

    def conflicts(self) -> Iterator[str]:
        """Say where losses have nothing to be computed from, or differ from nothing."""
        of_phrases = (self.kl_weight, self.choice_weight, self.sentence_weight)
        weights = (self.mixed_weight, self.plain_weight, *of_phrases)
        if max(weights) == 0:
            yield "the weights of all losses are 0, expected one of them above 0"
        if max(of_phrases) and not self.mixed_weight:
            yield (
                "kl_weight, choice_weight and sentence_weight need a mixed run; without"
                " mixed_weight set them to 0"
            )
        if self.kl_align == "literal" and self.kl_skip_phrases:
            yield "kl_align literal differs only at phrases; set kl_skip_phrases to False"

    def without_phrases(self) -> DynamicLMRecipe:
        """Return the settings of the plain fine-tuned model."""
        return replace(
            self, mixed_weight=0.0, kl_weight=0.0, choice_weight=0.0, sentence_weight=0.0
        )

    def loop(self) -> LoopConfig:
        """Return the loop's part of the settings."""
        return LoopConfig(
            steps=self.steps,
            learning_rate=self.learning_rate,
            warm_up=self.warm_up,
            weight_decay=self.weight_decay,
            clip=self.clip,
            accumulate=self.accumulate,
            report_every=self.report_every,
            checkpoint_every=self.checkpoint_every,
        )
