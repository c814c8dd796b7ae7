"""Settings that train a dynamic language model, every ablation among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from quoth.errors import ConfigError
from quoth.selfsupervision.phrase_sampling import PhraseSamplingConfig
from quoth.training.loop import LoopConfig
from quoth.training.quoting.phrase_negatives import NegativesConfig

QuoteColumns = Literal["own", "batch"]
QUOTE_COLUMNS: tuple[QuoteColumns, ...] = ("own", "batch")
KLAlign = Literal["after", "literal"]
KL_ALIGNMENTS: tuple[KLAlign, ...] = ("after", "literal")


@dataclass(frozen=True, slots=True)
class DynamicLMRecipe:
    """What a dynamic language model learns, and how.

    `mixed_weight` 0 with `kl_weight` 0 is the plain fine-tuned model; the output-only ablation is a
    setting of the model (`phrase_input` unfold), in which the mixed run is the plain one.
    """

    sampling: PhraseSamplingConfig = field(default_factory=PhraseSamplingConfig)
    """Which stretches of texts become phrases."""

    negatives: NegativesConfig = field(default_factory=NegativesConfig)
    """Which phrases are offered beside the right ones."""

    mixed_weight: float = 1.0
    """Weight of L_p, the loss over subwords and phrases; 0 leaves it out."""

    choice_weight: float = 0.0
    """Weight of a loss of our own: which phrase, among phrases alone, where one is right. In L_p
    that is learnt only as fast as phrases have any probability, which they begin by losing."""

    plain_weight: float = 1.0
    """Weight of L_t, the loss of the same text without phrases; 0 leaves it out."""

    kl_weight: float = 1.0
    """Weight of L_kl, between the runs with and without phrases; 0 leaves it out."""

    kl_align: KLAlign = "after"
    """after compares both runs where they have read the same text; literal compares what predicts
    a token with what predicts its last subword, as the paper's formula is written."""

    kl_detach: bool = True
    """Let L_kl move the mixed run alone."""

    kl_skip_phrases: bool = True
    """Leave out places where a phrase comes next; both alignments are the same there otherwise."""

    quote_share: float = 0.0
    """Share of the batches that are quotations; the others are texts."""

    quote_columns: QuoteColumns = "own"
    """own offers a quotation the phrases of its own passages, as when answering; batch those of
    all quotations of the batch."""

    candidate_budget: int = 128
    """Places per quotation at which offered phrases begin; those near quoted ones always count."""

    max_candidate_subwords: int = 8
    """Most subwords of a phrase offered with a quotation."""

    steps: int = 3000
    """Steps of the optimiser."""

    batch_size: int = 16
    """Texts per batch."""

    quote_batch_size: int = 8
    """Quotations per batch."""

    accumulate: int = 1
    """Batches whose gradients are added up for one step."""

    learning_rate: float = 5e-4
    """Highest learning rate of adapters and of the phrase encoder; 5e-5 suits all weights."""

    warm_up: float = 0.05
    """Share of the steps over which the learning rate rises; then it falls linearly to 0."""

    weight_decay: float = 0.01
    """Decay of weight matrices."""

    clip: float = 1.0
    """Longest gradient; longer ones are scaled down to it."""

    report_every: int = 50
    """Steps between two reports."""

    checkpoint_every: int = 0
    """Steps between two checkpoints; 0 writes none."""

    seed: int = 0
    """Decides the order of samples, their phrases and negatives, and the dropout."""

    def __post_init__(self) -> None:
        problems = []
        weights = (self.mixed_weight, self.plain_weight, self.kl_weight, self.choice_weight)
        if min(weights) < 0 or max(weights) == 0:
            problems.append("weights of losses must be ≥ 0, and one of them > 0")
        if (self.kl_weight or self.choice_weight) and not self.mixed_weight:
            problems.append(
                "kl_weight and choice_weight need a mixed run; without mixed_weight set them to 0"
            )
        problems += [
            f"{name} is {value!r}, expected one of {', '.join(known)}"
            for name, value, known in (
                ("kl_align", self.kl_align, KL_ALIGNMENTS),
                ("quote_columns", self.quote_columns, QUOTE_COLUMNS),
            )
            if value not in known
        ]
        if self.kl_align == "literal" and self.kl_skip_phrases:
            problems.append(
                "kl_align literal differs only at phrases; set kl_skip_phrases to False"
            )
        if not 0 <= self.quote_share <= 1:
            problems.append(f"quote_share is {self.quote_share}, expected a share from 0 to 1")
        if self.batch_size < 1 or self.quote_batch_size < 1:
            problems.append("batch_size and quote_batch_size must be ≥ 1")
        if self.candidate_budget < 0 or self.max_candidate_subwords < 2:
            problems.append("candidate_budget must be ≥ 0, max_candidate_subwords ≥ 2")
        if problems:
            raise ConfigError("dynamic language model recipe: " + "; ".join(problems))

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
