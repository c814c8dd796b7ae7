"""Settings of `quoth train pixar`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    Device,
    NonNegative,
    OneOf,
    Positive,
    Range,
    Seed,
    not_empty,
)
from quoth.vocabulary.phrases.config import NUM_BYTES, Cutter

AUTO_START, NO_START = "auto", "none"
"""As the start of training: the shipped network where it fits, or none."""


@dataclass(frozen=True, slots=True)
class PixarBuildConfig(CheckedConfig, title="pixar"):
    """Settings of training generative search for a collection."""

    minutes: Positive = 10.0
    """Approximate time budget, in minutes; it decides how much is written and trained."""

    device: Device = "auto"
    """Device to train on: auto, cpu, cuda or cuda:N."""

    start: Annotated[str, not_empty("auto, pixar, a folder or none")] = AUTO_START
    """What training starts from: the bundled network, trained across collections (pixar); a folder
    with another one; the encoder alone (none); or auto, which is pixar unless you use an encoder
    of your own."""

    train: bool = True
    """Train on this collection; if false, documents get identifiers and the starting network is
    used as is."""

    temperature: Positive = 0.8
    """Sampling temperature of the query generator; lower is plainer, higher more varied."""

    size: Annotated[int, Range(NUM_BYTES, or_zero=True)] = 0
    """Maximum phrases in the vocabulary; 0 takes as many as there are identifiers, within
    limits."""

    max_words: AtLeastOne = 1
    """Longest phrase, in words. Longer ones, up to 8 as in the paper, make identifiers shorter and
    find less."""

    min_count: AtLeastOne = 1
    """Occurrences required before a word or sequence of words becomes a candidate phrase."""

    cutter: Cutter = "best_cover"
    """How texts are segmented into phrases: best_cover, look_ahead or longest."""

    slot_kind: Annotated[str, OneOf("decoder", "mask", "input")] = "decoder"
    """Where the slots are: in a decoder that reads the query (decoder), in mask subwords after it
    (mask), or at its first positions, as in the paper (input). Slots and their tail are those of
    the network that training starts from; others need start = none."""

    tail: Annotated[str, OneOf("eos", "pad", "none")] = "eos"
    """Target of the slots after an identifier: its end once (eos), the end and then padding (pad),
    or nothing (none)."""

    slots: AtLeastZero = 0
    """Number of slots, which is the longest identifier in phrases; 0 chooses a number that nearly
    all identifiers fit in."""

    steps: AtLeastZero = 0
    """Training steps; 0 takes as many as fit into the time budget."""

    batch_size: AtLeastZero = 0
    """Queries per step; 0 means 64 on a CPU and 512 on a GPU."""

    targets: AtLeastOne = 4
    """Target identifiers per query and step."""

    learning_rate: Positive = 3e-4
    """Peak learning rate of the slots."""

    encoder_learning_rate: Positive = 3e-5
    """Peak learning rate of the encoder."""

    head_learning_rate: Positive = 1e-3
    """Peak learning rate of the phrase embeddings."""

    slot_weight: NonNegative = 1.0
    """Weight of ℓ₁, the loss by which each slot must predict its phrase; 0 leaves the slots
    untrained, which the default order does not use."""

    pooled_weight: NonNegative = 0.25
    """λ₂: weight of the loss by which the pooled vector must predict all phrases of an
    identifier."""

    normaliser_weight: NonNegative = 1.0
    """λ₃: weight of the squared log-normalisers of the slots, so that scores need none."""

    bag_weight: NonNegative = 1.0
    """Weight of the loss in which whole identifiers compete as bags of phrases, as they do in
    search by default."""

    shortlist: Annotated[str, OneOf("auto", "full", "centroids")] = "auto"
    """Which phrases are scored: all (full), or those that centroids list (centroids); auto takes
    centroids for large vocabularies."""

    num_centroids: AtLeastOne = 4096
    """m: maximum number of centroids; few queries give fewer."""

    list_length: AtLeastOne = 20_000
    """r: phrases that each centroid lists, at most a quarter of all."""

    num_lists: AtLeastOne = 5
    """k: lists joined for each query."""

    judged_queries: AtLeastZero = 300
    """Maximum queries held out for evaluation."""

    looks: AtLeastZero = 5
    """Number of validations during training, on queries held out for this alone; the best state is
    kept. 0 keeps the last."""

    look_queries: AtLeastZero = 100
    """Maximum validation queries of each kind."""

    patience: AtLeastZero = 0
    """Validations without improvement before training stops early; 0 never stops early."""

    checkpoint_every: AtLeastOne = 50
    """Steps between checkpoints, the most that an interruption can lose."""

    seed: Seed = 0
    """Seed of the written queries, the split and the order of training."""

    def conflicts(self) -> Iterator[str]:
        """Say where more lists are to be joined than there are."""
        if self.num_lists > self.num_centroids:
            yield f"num_lists is {self.num_lists}, but there are {self.num_centroids} centroids"
