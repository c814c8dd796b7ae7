"""Settings of `quoth learn`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    Device,
    InnerShare,
    NonNegative,
    OneOf,
    Positive,
    PositiveShare,
    Range,
    Seed,
    Text,
)


@dataclass(frozen=True, slots=True)
class LearnConfig(CheckedConfig, title="learn"):
    """Settings of learning without labels."""

    minutes: Positive = 15.0
    """Time to fit into, roughly: it decides how much is written and trained."""

    device: Device = "auto"
    """Where training happens: auto, cpu, cuda or cuda:N."""

    method: Annotated[str, OneOf("auto", "rumbart", "distil", "acrobart", "none")] = "auto"
    """What follows the warm-up: rumbart, distil (its frozen variant), acrobart, none; auto takes
    rumbart on a GPU, and on a CPU distil if enough steps fit."""

    generator: Text = "query-generator"
    """Query generator: the shipped one, or a folder."""

    queries_per_passage: AtLeastOne = 3
    """Most pseudo-queries written for a passage."""

    max_passages: AtLeastOne = 20_000
    """Most passages that pseudo-queries are written for, spread evenly."""

    temperature: Positive = 0.7
    """Temperature of writing: lower is plainer, higher more varied."""

    corpus_queries: AtLeastZero = 2
    """Most titles and headings taken from a passage as queries; 0 takes none."""

    warm_up_steps: AtLeastOne = 100
    """Most steps of the warm-up."""

    warm_up_batch: Annotated[int, Range(2, or_zero=True)] = 0
    """Queries per step of the warm-up; 0 takes 64 on a CPU, 128 on a GPU."""

    steps: AtLeastOne = 300
    """Most steps of what follows the warm-up."""

    batch_size: Annotated[int, Range(2, or_zero=True)] = 0
    """Queries per step of it; 0 takes 8 on a CPU, 32 on a GPU."""

    k: Annotated[int, Range(2, or_zero=True)] = 0
    """Passages found per query in it; 0 takes 4 on a CPU, 8 on a GPU."""

    learning_rate: Positive = 2e-5
    """Highest learning rate of the encoder."""

    share: PositiveShare = 0.5
    """Share of what was learned in the encoder that is installed; the rest stays as it was before.
    1 takes all of it, as does learning from labelled pairs."""

    max_subwords: Annotated[int, Range(16, or_zero=True)] = 0
    """Subwords read of a passage while training; 0 takes 96 on a CPU, 256 on a GPU."""

    held_out: InnerShare = 0.15
    """Share of the documents that give no query to train on, only queries to judge by."""

    judged_queries: Annotated[int, Range(2)] = 300
    """Most queries of each kind to judge by."""

    margin: NonNegative = 0.002
    """Rise of hybrid search's RR@10 above which a model is installed, if it is beyond chance."""

    reranker: bool = True
    """Fit the reranker to the collection, which is used where held-out queries say it is better."""

    reranker_steps: AtLeastOne = 60
    """Most steps of that, each of 16 queries with ten passages."""

    generative: bool = False
    """Train generative search as well, as the last stage, which takes generative_minutes more."""

    generative_minutes: Positive = 10.0
    """Time that this last stage is to fit into, roughly."""

    seed: Seed = 0
    """Decides which queries are made, the split, and the order of training."""

    similarity: Annotated[str, OneOf("cosine", "dot")] = "cosine"
    """How training compares vectors: cosine, or dot as in the thesis, unscaled; search takes the
    cosine of what either has learned."""

    marginal: Annotated[str, OneOf("sequence", "token")] = "sequence"
    """With method = rumbart: what is summed over passages, the probability of the whole query
    (sequence) or of each of its tokens (token)."""

    def conflicts(self) -> Iterator[str]:
        """Say where a sum is chosen that the method does not make."""
        if self.marginal != "sequence" and self.method != "rumbart":
            yield f"marginal = {self.marginal} needs method = rumbart, found {self.method}"
