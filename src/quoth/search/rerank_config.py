"""Settings of reranking; apart from it, so that `--help` needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, CheckedConfig, OneOf, Positive, Range, Share, not_empty

CROSS_ENCODER, LIKELIHOOD, BOTH, NONE = "cross-encoder", "likelihood", "both", "none"


@dataclass(frozen=True, slots=True)
class RerankConfig(CheckedConfig, title="rerank"):
    """How the best hits of a search are put into a new order."""

    by: Annotated[str, OneOf(CROSS_ENCODER, LIKELIHOOD, BOTH, NONE)] = CROSS_ENCODER
    """cross-encoder: query and passage read together; likelihood: the query generator's
    log p(query | passage), slower; both: their sum, better still and as slow; none: the search
    `auto` reranks nothing."""

    method: Annotated[str, OneOf("calibrated", "fixed")] = "calibrated"
    """calibrated: the cross-encoder's share as learnt from the documents; fixed: weight below."""

    weight: Share = 0.4
    """Share of the cross-encoder in the new score with fixed, and with calibrated until there is a
    calibration; the first search keeps the rest."""

    likelihood_factor: Positive = 0.1
    """With both: what log p(query | passage) is multiplied with before it is added."""

    likelihood_weight: Share = 0.3
    """Share of log p(query | passage) in the new score, where that is what reranks."""

    width: Positive = 16.0
    """How far the cross-encoder's scores of a query's hits usually reach: so much counts as much as
    the usual range of a searcher."""

    depth: AtLeastOne = 30
    """Best hits that are reranked; those below keep their order after them."""

    max_subwords: Annotated[int, Range(32)] = 192
    """Most subwords of query, title and passage that the cross-encoder reads; the rest is cut."""

    reader: Annotated[str, not_empty("reader, or a folder")] = "reader"
    """The cross-encoder: the shipped reader, or a folder that holds one."""

    generator: Annotated[str, not_empty("query-generator, a folder or a hub name")] = (
        "query-generator"
    )
    """The query generator: the shipped one, a folder, or a BART or T5 by hub name."""
