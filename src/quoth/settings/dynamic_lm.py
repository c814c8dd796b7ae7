"""Settings of `quoth train dynamic-lm`, by section.

training    how much is read, made and judged, and how long is trained
recipe      losses, batches, learning rate
sampling    which stretches of texts become phrases
negatives   which phrases are offered beside the right ones
quoting     the samples that teach quoting
model       what a model that is started anew is like
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    Device,
    InnerShare,
    Positive,
    Range,
    Seed,
)
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.selfsupervision.sampling_config import PhraseSamplingConfig
from quoth.training.quoting.negatives_config import NegativesConfig
from quoth.training.quoting.quoting_config import QuotingConfig
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe


@dataclass(frozen=True, slots=True)
class DynamicTrainingConfig(CheckedConfig, title="training"):
    """Settings of training a language model on a collection."""

    minutes: Positive = 10.0
    """Approximate time budget, in minutes; steps are timed, and as many planned as fit."""

    steps: AtLeastZero = 0
    """Training steps; 0 takes as many as fit into the time budget."""

    most_epochs: AtLeastOne = 8
    """Maximum epochs where the time budget decides; more would be memorising."""

    device: Device = "auto"
    """Device to train on: auto, cpu, cuda or cuda:N."""

    held_out: InnerShare = 0.1
    """Share of the documents held out for evaluation, at least one."""

    documents: AtLeastOne = 10_000
    """Maximum documents to train on, evenly spread."""

    text_subwords: Annotated[int, Range(16)] = 512
    """Maximum subwords per text; longer passages are truncated."""

    least_subwords: Annotated[int, Range(8)] = 16
    """Minimum subwords of a passage to train on."""

    sentences: AtLeastZero = 2000
    """Sentences to try to rebuild from phrases of other passages."""

    distractors: AtLeastOne = 10
    """Maximum passages retrieved in addition to the right one for each labelled question."""

    continuations: AtLeastOne = 50_000
    """With negatives.generation: maximum phrases that the base model continues."""

    judged: AtLeastZero = 0
    """Maximum held-out samples of each kind to evaluate on; 0 means 12 on a CPU and 64 on a GPU."""

    seed: Seed = 0
    """Seed of the split, the samples and the order of training."""


TRAINING_SECTIONS: Mapping[str, type] = {
    "training": DynamicTrainingConfig,
    "recipe": DynamicLMRecipe,
    "sampling": PhraseSamplingConfig,
    "negatives": NegativesConfig,
    "quoting": QuotingConfig,
    "model": DynamicLMConfig,
}

TRAINING_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "recipe": {"quote_share": 0.75, "checkpoint_every": 50},
    "negatives": {"generation": False},
}
"""What the command takes where nothing is set, if not what the classes take, as papers do."""

BY_DEVICE: Mapping[str, tuple[str, ...]] = {
    "recipe": ("steps", "batch_size", "quote_batch_size", "accumulate", "candidate_budget"),
    "quoting": ("num_passages",),
}
"""What it chooses by the device and the time, where nothing is set."""
