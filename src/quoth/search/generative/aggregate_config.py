"""Settings of aggregation; apart from it, so that `--help` needs no numba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastZero, CheckedConfig, OneOf, Range, Share

METHODS = ("max", "logsumexp", "seal", "rank")
POSTINGS = ("ignore", "divide")


@dataclass(frozen=True, slots=True)
class AggregateConfig(CheckedConfig, title="aggregate"):
    """How identifiers with scores become rows with scores."""

    method: Annotated[str, OneOf(*METHODS)] = "max"
    """max, logsumexp, seal (log-odds, repetition discounted) or rank (reciprocal ranks)."""

    posting: Annotated[str, OneOf(*POSTINGS)] = "ignore"
    """Whether owners share an identifier's evidence: ignore how many there are, or divide."""

    temperature: Annotated[float, Range(above=0, most=1_000)] = 1.0
    """With method = logsumexp: scores are divided by it and the sum multiplied; the higher, the
    more identifiers count beside the best."""

    alpha: Annotated[float, Range(above=0, most=10)] = 2.0
    """With method = seal: log-odds count to this power."""

    beta: Share = 0.8
    """With method = seal: share of an identifier's weight that its new phrases earn."""

    lift: Annotated[float, Range(-1_000, 1_000)] = 0.0
    """With method = seal: added to each score; whole sequences are less likely than their prior."""

    constant: AtLeastZero = 60
    """With method = rank: an identifier adds 1 / (constant + rank)."""
