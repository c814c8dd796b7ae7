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
    """Time to fit into, roughly; steps are timed, and as many planned as fit."""

    steps: AtLeastZero = 0
    """Steps of training; 0 takes what fits into the time."""

    most_epochs: AtLeastOne = 8
    """How often a sample may be read, where the time decides: more is learning by heart."""

    device: Device = "auto"
    """Where training happens: auto, cpu, cuda or cuda:N."""

    held_out: InnerShare = 0.1
    """Share of the documents that nothing is trained on, to judge by; one at least."""

    documents: AtLeastOne = 10_000
    """Most documents that are trained on, evenly spread."""

    text_subwords: Annotated[int, Range(16)] = 512
    """Most subwords of a text; longer passages are cut."""

    least_subwords: Annotated[int, Range(8)] = 16
    """Fewest subwords of a passage that is worth learning."""

    sentences: AtLeastZero = 2000
    """Sentences that are tried to be rebuilt from other passages."""

    distractors: AtLeastOne = 10
    """Most passages that are found beside the right one of a labelled question."""

    continuations: AtLeastOne = 50_000
    """Most phrases that the untouched model goes on from, where negatives.generation is set."""

    judged: AtLeastZero = 0
    """Most held-out samples of each kind that are judged by; 0 takes 12 on a CPU, 64 on a GPU."""

    seed: Seed = 0
    """Decides the split, what is drawn, and the order of training."""


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
