"""Settings of reranking; apart from it, so that `--help` needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import (
    AtLeastOne,
    CheckedConfig,
    NonNegative,
    OneOf,
    Positive,
    Range,
    Share,
    not_empty,
)

CROSS_ENCODER, LIKELIHOOD, BOTH, NONE = "cross-encoder", "likelihood", "both", "none"

SECOND_LOOK = {"late_interaction": 0.5, "late_likelihood": 0.004}
"""What both voices of a second look weigh once a collection has learned, as training queries chose
(benchmarks.learn.ranking)."""


@dataclass(frozen=True, slots=True)
class RerankConfig(CheckedConfig, title="rerank"):
    """How the best hits of a search are put into a new order."""

    by: Annotated[str, OneOf(CROSS_ENCODER, LIKELIHOOD, BOTH, NONE)] = CROSS_ENCODER
    """cross-encoder reads query and passage together; likelihood uses the query generator's log
    p(query | passage), which is slower; both adds the two, which is better still and as slow;
    none keeps auto from reranking."""

    method: Annotated[str, OneOf("calibrated", "fixed")] = "calibrated"
    """calibrated uses the cross-encoder's weight learned from the documents; fixed uses
    rerank.weight."""

    weight: Share = 0.4
    """Weight of the cross-encoder in the new score with fixed, and with calibrated until a
    calibration exists; the first search keeps the rest."""

    likelihood_factor: NonNegative = 0.0
    """With both: factor applied to log p(query | passage) before it is added; 0 uses what suits the
    generator: 0.4 for one over a causal language model, 0.1 for others."""

    likelihood_hits: AtLeastOne = 30
    """With both: number of hits, the best by the cross-encoder, that the query generator reads."""

    likelihood_weight: Share = 0.3
    """Weight of log p(query | passage) in the new score, with likelihood."""

    width: Positive = 16.0
    """Typical spread of the cross-encoder's scores over the hits of a query; it is scaled to the
    typical range of a searcher."""

    feedback: NonNegative = 0.6
    """Weight of a hit's likeness to the top hits (the cosine of stored vectors), added to the new
    score where the cross-encoder reranks the hybrid; 0 turns it off."""

    feedback_hits: AtLeastOne = 2
    """Number of top hits that the others are compared with."""

    late_interaction: NonNegative = 0.0
    """Weight of late interaction (MaxSim over the subwords of query and passage, each word of the
    query weighted by its idf), added to the new score where the cross-encoder reranks the hybrid;
    0 turns it off. `quoth learn` sets it to 0.5 (learn.second_look)."""

    late_likelihood: NonNegative = 0.0
    """Weight of log p(query | passage) by the query generator, added in the same way; its reading
    serves late interaction as well. 0 turns it off. `quoth learn` sets it to 0.004
    (learn.second_look)."""

    late_hits: AtLeastOne = 10
    """Number of top hits that late_interaction and late_likelihood look at; more take longer."""

    depth: AtLeastOne = 30
    """Number of top hits to rerank; lower ones keep their order after them."""

    max_subwords: Annotated[int, Range(32)] = 192
    """Maximum subwords of query, title and passage that the cross-encoder reads; the rest is
    truncated."""

    reader: Annotated[str, not_empty("reader, or a folder")] = "reader"
    """The cross-encoder: the bundled reader, or a folder that holds one."""

    generator: Annotated[str, not_empty("query-generator, a folder or a hub name")] = (
        "query-generator"
    )
    """The query generator: the bundled one, a folder, or a BART or T5 by its name on a hub."""
