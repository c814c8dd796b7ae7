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
    """Time to fit into, roughly: it decides how much is written and trained."""

    device: Device = "auto"
    """Where training happens: auto, cpu, cuda or cuda:N."""

    start: Annotated[str, not_empty("auto, pixar, a folder or none")] = AUTO_START
    """What training starts from: the shipped network, trained across collections (pixar), another
    such in a folder, the encoder alone (none), or pixar unless the encoder is one's own (auto)."""

    train: bool = True
    """Train for this collection; without it documents are named, and searched with the start."""

    temperature: Positive = 0.8
    """Temperature of writing: lower is plainer, higher more varied."""

    size: Annotated[int, Range(NUM_BYTES, or_zero=True)] = 0
    """Most phrases of the vocabulary; 0 takes as many as there are identifiers, within limits."""

    min_count: AtLeastOne = 2
    """Occurrences that make a word or a sequence of words a candidate for a phrase."""

    cutter: Cutter = "best_cover"
    """How texts are cut into phrases: best_cover, look_ahead or longest."""

    slot_kind: Annotated[str, OneOf("decoder", "mask", "input")] = "decoder"
    """Where slots are: in a decoder that reads the query (decoder), in mask subwords after it
    (mask), or at its first positions, as in the paper (input)."""

    tail: Annotated[str, OneOf("eos", "pad", "none")] = "eos"
    """What slots after an identifier are taught: its end once (eos), the end and then padding
    (pad), or nothing (none)."""

    slots: AtLeastZero = 0
    """Phrases of the longest identifier that slots can name; 0 takes what nearly all fit in."""

    steps: AtLeastZero = 0
    """Steps of training; 0 takes what fits into the time."""

    batch_size: AtLeastZero = 0
    """Queries per step; 0 takes 64 on a CPU, 512 on a GPU."""

    targets: AtLeastOne = 4
    """Identifiers that a query is taught at a step."""

    learning_rate: Positive = 3e-4
    """Highest learning rate of the slots."""

    encoder_learning_rate: Positive = 3e-5
    """Highest learning rate of the encoder."""

    head_learning_rate: Positive = 1e-3
    """Highest learning rate of the phrases' rows."""

    pooled_weight: NonNegative = 0.25
    """λ₂: share of the loss by which the pooled vector must name all phrases of an identifier."""

    normaliser_weight: NonNegative = 1.0
    """λ₃: share of the squared log-normalisers of slots, so that scores need none."""

    bag_weight: NonNegative = 1.0
    """Share of the loss by which whole identifiers compete as bags of phrases, which is how they
    are searched for by default."""

    shortlist: Annotated[str, OneOf("auto", "full", "centroids")] = "auto"
    """Which phrases are scored: all (full), or those that centroids list; auto takes centroids
    for large vocabularies."""

    num_centroids: AtLeastOne = 4096
    """m: most centroids; few queries make fewer."""

    list_length: AtLeastOne = 20_000
    """r: phrases that a centroid lists, at most a quarter of all."""

    num_lists: AtLeastOne = 5
    """k: lists that are joined for a query."""

    judged_queries: AtLeastZero = 300
    """Most queries that are kept from training, to judge by."""

    looks: AtLeastZero = 5
    """Times at which training is judged by queries kept back for this alone; the best state is the
    one that is kept. 0 keeps the last."""

    look_queries: AtLeastZero = 100
    """Most queries of each kind that are kept back for looks."""

    patience: AtLeastZero = 0
    """Looks without improvement after which training stops; 0 never stops early."""

    checkpoint_every: AtLeastOne = 50
    """Steps between two checkpoints: what an interruption may lose."""

    seed: Seed = 0
    """Decides what is written, the split, and the order of training."""

    def conflicts(self) -> Iterator[str]:
        """Say where more lists are to be joined than there are."""
        if self.num_lists > self.num_centroids:
            yield f"num_lists is {self.num_lists}, but there are {self.num_centroids} centroids"
