"""Settings of a training run; apart from the loop, so that `quoth settings` needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from quoth.constraints import FREE, AtLeastOne, AtLeastZero, CheckedConfig, Positive, ShareBelowOne


@dataclass(frozen=True, slots=True)
class LoopConfig(CheckedConfig, title="training"):
    """Settings of a training run."""

    steps: AtLeastOne = 600
    """Steps of the optimiser."""

    learning_rate: Positive = 8e-5
    """Highest learning rate, reached after the warm-up."""

    learning_rates: Mapping[str, Annotated[float, FREE]] = field(default_factory=dict)
    """Other learning rates, by the beginning of a parameter's name."""

    warm_up: ShareBelowOne = 0.1
    """Share of the steps over which the learning rate rises; then it falls linearly to 0."""

    weight_decay: Annotated[float, FREE] = 0.01
    """Decay of weight matrices; biases and normalisations have none."""

    clip: Positive = 1.0
    """Longest gradient; longer ones are scaled down to it."""

    accumulate: AtLeastOne = 1
    """Batches whose gradients are added up for one step."""

    ramp_steps: AtLeastZero = 0
    """Steps over which word weights are brought in: w becomes 1 + γ(w − 1), γ from 0 to 1."""

    bf16: bool = True
    """Compute in bf16 where the network is on a GPU; on a CPU this does nothing."""

    report_every: AtLeastOne = 50
    """Steps between two reports of the loss."""

    validate_every: AtLeastZero = 0
    """Steps between two validations; 0 never validates."""

    patience: AtLeastZero = 0
    """Validations without improvement after which training stops; 0 never stops early."""

    checkpoint_every: AtLeastZero = 0
    """Steps between two checkpoints; 0 writes none."""
