"""Settings of fusing several searchers' runs, and of choosing the weights for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import (
    FREE,
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    NonNegative,
    OneOf,
    Range,
    Seed,
    Share,
)

NORMALISATIONS = ("range", "min_max", "z_score", "none")
MEASURES = ("RR", "nDCG")


@dataclass(frozen=True, slots=True)
class FusionConfig(CheckedConfig, title="fusion"):
    """How the runs of several searchers are fused."""

    method: Annotated[str, OneOf("calibrated", "convex", "rrf")] = "calibrated"
    """calibrated uses weights learned from the documents; convex uses fusion.weight; rrf uses ranks
    only."""

    normalise: Annotated[str, OneOf(*NORMALISATIONS)] = "range"
    """How scores are made comparable: range (by the searcher's typical range in this collection,
    from calibration), or per query with min_max, z_score or none."""

    weight: Share = 0.5
    """Weight of dense search with convex, and with calibrated until a calibration exists."""

    generative: Share = 0.0
    """Weight of generative search once a model is trained; the others share the rest.

    Before reranking, the bundled model helps a little at 0.1 to 0.2, without training; once hits
    are reranked, no share was better beyond chance, so the default is 0."""

    generative_from: Annotated[str, OneOf("all", "dense")] = "all"
    """Whose weight generative search takes its share of: that of all searchers, or of dense search
    alone."""

    depth: AtLeastOne = 100
    """Hits taken from each searcher before fusion."""

    constant: AtLeastZero = 60
    """Constant added to every rank with rrf; the larger it is, the less the top ranks stand out."""

    def weights(self, lexical: str, others: Sequence[str]) -> dict[str, float]:
        """Give `weight` to the searchers that are not lexical, in even shares, and it the rest.

        >>> FusionConfig(weight=0.25).weights("lexical", ["dense"])
        {'lexical': 0.75, 'dense': 0.25}
        >>> FusionConfig().weights("lexical", [])
        {'lexical': 1.0}
        """
        if not others:
            return {lexical: 1.0}
        return {lexical: 1.0 - self.weight} | {each: self.weight / len(others) for each in others}

    def with_generative(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Give the generative side its share, and what is left to the others as they had it.

        >>> even = {"lexical": 0.5, "dense": 0.5}
        >>> FusionConfig(generative=0.2).with_generative(even)
        {'lexical': 0.4, 'dense': 0.4, 'generative': 0.2}
        >>> FusionConfig(generative=0.5, generative_from="dense").with_generative(even)
        {'lexical': 0.5, 'dense': 0.25, 'generative': 0.25}
        """
        giving = weights if self.generative_from == "all" else ("dense",)
        rest = 1.0 - self.generative
        left = {name: rest * each if name in giving else each for name, each in weights.items()}
        return left | {"generative": self.generative * sum(weights[name] for name in giving)}


@dataclass(frozen=True, slots=True)
class CalibrationConfig(CheckedConfig, title="calibration"):
    """How weights are chosen from known-item queries."""

    normalise: Annotated[str, OneOf(*NORMALISATIONS)] = "range"
    """How scores are made comparable; the same as in fusion."""

    depth: AtLeastOne = 100
    """Hits taken of each searcher; the same as in fusion."""

    measure: Annotated[str, OneOf(*MEASURES)] = "RR"
    """What the rank of the target is worth: RR or nDCG."""

    k: AtLeastOne = 10
    """Rank below which the target counts as not found."""

    steps: AtLeastOne = 10
    """Steps of the grid of weights: 10 tries 0, 0.1, … 1."""

    num_folds: Annotated[int, Range(2)] = 5
    """Parts that the documents are dealt into; each is scored with weights chosen on the others."""

    min_queries: Annotated[int, Range(2)] = 30
    """With fewer queries there is no evidence, and the mix is even."""

    margin: NonNegative = 0.005
    """What fusing may lose against the best searcher alone, where it might be chance."""

    confidence: Annotated[float, Range(0.5, below=1)] = 0.95
    """How sure it must be that a searcher alone is better, to use it alone for less."""

    num_resamples: AtLeastOne = 1000
    """Resamples of the bootstrap."""

    overlap_split: Annotated[float, FREE] = 0.5
    """Queries with at least this overlap are averaged apart from those with less."""

    min_stratum: AtLeastOne = 20
    """With fewer queries on either side of the split, all are averaged together."""

    seed: Seed = 0
    """Decides the folds and the resamples."""
