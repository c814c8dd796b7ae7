"""The settings of the recipe of PIXAR, apart from it, so that `quoth --help` needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import (
    FREE,
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    NonNegative,
    OneOf,
    Positive,
    Seed,
    Share,
    ShareBelowOne,
)


@dataclass(frozen=True, slots=True)
class PixarRecipe(CheckedConfig, title="pixar recipe"):
    """Settings that train a PIXAR model."""

    steps: AtLeastOne = 20_000
    """Steps of the optimiser."""

    batch_size: AtLeastOne = 512
    """Queries per batch; several processes share them."""

    targets_per_input: AtLeastOne = 4
    """Identifiers drawn for each query and step; their losses are averaged."""

    learning_rate: Positive = 3e-4
    """Highest learning rate of what is neither encoder nor head."""

    encoder_learning_rate: Positive = 3e-5
    """Highest learning rate of the encoder, where it is trained."""

    head_learning_rate: Positive = 1e-3
    """Highest learning rate of the head; rowwise_adagrad and sgd want far higher ones."""

    scale_learning_rate: Positive = 3e-3
    """Highest learning rate of the pooled vector's length, which has far to go."""

    head_optimiser: Annotated[str, OneOf("adamw", "rowwise_adagrad", "sgd")] = "adamw"
    """What moves the head's rows: adamw (two more tables of state), rowwise_adagrad (one number
    per row) or sgd (none)."""

    slot_weight: NonNegative = 1.0
    """Share of ℓ₁, the loss of the slots, each of which must name its phrase of a target."""

    pooled_weight: NonNegative = 0.25
    """λ₂: share of the loss of the pooled vector, which must name all phrases of a target."""

    normaliser_weight: NonNegative = 1.0
    """λ₃: share of the squared log-normalisers of slots, so that scores need none."""

    normaliser_ramp: Share = 0.1
    """Share of the steps over which λ₃ rises from 0: normalisers start far from 1."""

    bag_weight: NonNegative = 0.0
    """Share of a loss of our own, by which whole identifiers of a batch compete as bags of phrases
    (`training/identifiers/bag_contrast.py`); 0 trains with the paper's alone."""

    weight_decay: Annotated[float, FREE] = 0.0
    """Decay of weight matrices; rows of unit length gain nothing from it."""

    dropout: ShareBelowOne = 0.1
    """Share of states dropped while training."""

    chunk: AtLeastOne = 8192
    """Rows of the head whose logits are held at once."""

    bf16: bool = True
    """Compute in bf16 where the model is on a GPU."""

    report_every: AtLeastOne = 100
    """Steps between two reports of the loss."""

    validate_every: AtLeastZero = 0
    """Steps between two validations; 0 never validates."""

    patience: AtLeastZero = 0
    """Validations without improvement after which training stops; 0 never stops early."""

    keep_best: bool = True
    """End with the state that validated best; without it, or without validations, the last."""

    checkpoint_every: AtLeastZero = 0
    """Steps between two checkpoints; 0 writes none."""

    seed: Seed = 0
    """Decides the order of queries, the drawn targets and the dropout."""

    def conflicts(self) -> Iterator[str]:
        """Say where bags of phrases compete without the optimiser that they need."""
        if self.bag_weight and self.head_optimiser != "adamw":
            yield f"bag_weight needs head_optimiser adamw, not {self.head_optimiser}"
