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
    """Approximate time budget, in minutes; it decides how much is written and trained."""

    device: Device = "auto"
    """Device to train on: auto, cpu, cuda or cuda:N."""

    method: Annotated[str, OneOf("auto", "rumbart", "distil", "acrobart", "none")] = "auto"
    """How the encoder is trained after a warm-up: rumbart, distil (its frozen variant), acrobart or
    none (the warm-up alone). auto leaves the encoder as it is if a reranker is fine-tuned, which
    helps more, unless --queries gives it some; it takes rumbart on a GPU, and distil on a CPU if
    enough steps fit."""

    generator: Text = "query-generator"
    """Query generator: query-generator, causal-query-generator (over the language model of answers:
    larger and many times slower, for a GPU), or a folder."""

    queries_per_passage: AtLeastOne = 3
    """Maximum pseudo-queries per passage."""

    max_passages: AtLeastOne = 20_000
    """Maximum passages to write pseudo-queries for, spread evenly."""

    temperature: Positive = 0.7
    """Sampling temperature of the query generator; lower is plainer, higher more varied."""

    corpus_queries: AtLeastZero = 2
    """Maximum titles and headings per passage to use as queries; 0 uses none."""

    warm_up_steps: AtLeastOne = 100
    """Maximum steps of the warm-up."""

    warm_up_batch: Annotated[int, Range(2, or_zero=True)] = 0
    """Queries per step of the warm-up; 0 means 64 on a CPU and 128 on a GPU."""

    steps: AtLeastOne = 300
    """Maximum steps of the method."""

    batch_size: Annotated[int, Range(2, or_zero=True)] = 0
    """Queries per step of the method; 0 means 8 on a CPU and 32 on a GPU."""

    k: Annotated[int, Range(2, or_zero=True)] = 0
    """Passages retrieved per query in the method; 0 means 4 on a CPU and 8 on a GPU."""

    learning_rate: Positive = 2e-5
    """Peak learning rate of the encoder."""

    share: PositiveShare = 0.5
    """Interpolation between the weights from before (0) and after training (1) that is installed.

    Learning from labelled pairs always takes 1."""

    max_subwords: Annotated[int, Range(16, or_zero=True)] = 0
    """Maximum subwords per passage in training; 0 means 96 on a CPU and 256 on a GPU."""

    held_out: InnerShare = 0.15
    """Share of the documents held out: queries made from them are used for evaluation only."""

    judged_queries: Annotated[int, Range(2)] = 300
    """Maximum evaluation queries of each kind."""

    margin: NonNegative = 0.002
    """Least gain in RR@10 of hybrid search for a model to be installed; the gain must also be
    significant."""

    reranker: bool = True
    """Fine-tune the reranker on the collection; it is used if it does better on held-out
    queries."""

    reranker_familiar: Positive = 4.4
    """Fine-tune the reranker only if the median relevance that it gives passages for the
    pseudo-queries written for them is below this. Where it was higher, the reranker knew such
    questions, and fine-tuning did no good or harm; 100 fine-tunes always."""

    reranker_steps: AtLeastOne = 60
    """Maximum steps of that fine-tuning, each with 16 queries and ten passages per query, seven on
    a CPU."""

    reranker_learning_rate: Positive = 6e-5
    """Peak learning rate of that fine-tuning."""

    reranker_share: PositiveShare = 0.5
    """Interpolation between the reranker from before (0) and after that fine-tuning (1)."""

    second_look: bool = True
    """Let search look at its best ten hits a second time from then on: late interaction and the
    query generator's log p(query | passage) (rerank.late_interaction, rerank.late_likelihood). It
    ranks better, and a search takes about half as long again."""

    generative: bool = False
    """Also train generative search, as the last stage, for generative_minutes more."""

    generative_minutes: Positive = 10.0
    """Approximate time budget of that last stage, in minutes."""

    seed: Seed = 0
    """Seed of the pseudo-queries, the split and the order of training."""

    similarity: Annotated[str, OneOf("cosine", "dot")] = "cosine"
    """How training compares vectors: cosine, or dot (unscaled, as in the thesis); search uses the
    cosine either way."""

    marginal: Annotated[str, OneOf("sequence", "token")] = "sequence"
    """With method = rumbart: what is summed over passages, the probability of the whole query
    (sequence) or of each of its tokens (token)."""

    def conflicts(self) -> Iterator[str]:
        """Say where a sum is chosen that the method does not make."""
        if self.marginal != "sequence" and self.method != "rumbart":
            yield f"marginal = {self.marginal} needs method = rumbart, found {self.method}"
