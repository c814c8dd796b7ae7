"""The settings of the recipe of PIXAR, apart from it, so that `quoth --help` needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

HEAD_OPTIMISERS = ("adamw", "rowwise_adagrad", "sgd")


@dataclass(frozen=True, slots=True)
class PixarRecipe:
    """Settings that train a PIXAR model."""

    steps: int = 20_000
    """Steps of the optimiser."""

    batch_size: int = 512
    """Queries per batch; several processes share them."""

    targets_per_input: int = 4
    """Identifiers drawn for each query and step; their losses are averaged."""

    learning_rate: float = 3e-4
    """Highest learning rate of what is neither encoder nor head."""

    encoder_learning_rate: float = 3e-5
    """Highest learning rate of the encoder, where it is trained."""

    head_learning_rate: float = 1e-3
    """Highest learning rate of the head; rowwise_adagrad and sgd want far higher ones."""

    scale_learning_rate: float = 3e-3
    """Highest learning rate of the pooled vector's length, which has far to go."""

    head_optimiser: str = "adamw"
    """What moves the head's rows: adamw (two more tables of state), rowwise_adagrad (one number
    per row) or sgd (none)."""

    pooled_weight: float = 0.25
    """λ₂: share of the loss of the pooled vector, which must name all phrases of a target."""

    normaliser_weight: float = 1.0
    """λ₃: share of the squared log-normalisers of slots, so that scores need none."""

    normaliser_ramp: float = 0.1
    """Share of the steps over which λ₃ rises from 0: normalisers start far from 1."""

    bag_weight: float = 0.0
    """Share of a loss of our own, by which whole identifiers of a batch compete as bags of phrases
    (`training/identifiers/bag_contrast.py`); 0 trains with the paper's alone."""

    weight_decay: float = 0.0
    """Decay of weight matrices; rows of unit length gain nothing from it."""

    dropout: float = 0.1
    """Share of states dropped while training."""

    chunk: int = 8192
    """Rows of the head whose logits are held at once."""

    bf16: bool = True
    """Compute in bf16 where the model is on a GPU."""

    report_every: int = 100
    """Steps between two reports of the loss."""

    validate_every: int = 0
    """Steps between two validations; 0 never validates."""

    patience: int = 0
    """Validations without improvement after which training stops; 0 never stops early."""

    keep_best: bool = True
    """End with the state that validated best; without it, or without validations, the last."""

    checkpoint_every: int = 0
    """Steps between two checkpoints; 0 writes none."""

    seed: int = 0
    """Decides the order of queries, the drawn targets and the dropout."""

    def __post_init__(self) -> None:
        problems = []
        if self.head_optimiser not in HEAD_OPTIMISERS:
            problems.append(
                f"head_optimiser is {self.head_optimiser!r}, expected one of"
                f" {', '.join(HEAD_OPTIMISERS)}"
            )
        if min(self.steps, self.batch_size, self.targets_per_input, self.chunk) < 1:
            problems.append("steps, batch_size, targets_per_input and chunk must be ≥ 1")
        rates = (self.learning_rate, self.encoder_learning_rate, self.head_learning_rate)
        if min(*rates, self.scale_learning_rate) <= 0:
            problems.append("learning rates must be > 0")
        if min(self.pooled_weight, self.normaliser_weight, self.bag_weight) < 0:
            problems.append("pooled_weight, normaliser_weight and bag_weight must be ≥ 0")
        if self.bag_weight and self.head_optimiser != "adamw":
            problems.append(f"bag_weight needs head_optimiser adamw, not {self.head_optimiser}")
        if not 0 <= self.normaliser_ramp <= 1 or not 0 <= self.dropout < 1:
            problems.append("normaliser_ramp must be in [0, 1] and dropout in [0, 1)")
        if problems:
            raise ConfigError("pixar recipe: " + "; ".join(problems))
