"""Settings of fusing several searchers' runs, and of choosing the weights for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quoth.errors import ConfigError

METHODS = ("calibrated", "convex", "rrf")
NORMALISATIONS = ("range", "min_max", "z_score", "none")
MEASURES = ("RR", "nDCG")

_LEAST = {
    "depth": 1,
    "k": 1,
    "steps": 1,
    "num_folds": 2,
    "min_queries": 2,
    "num_resamples": 1,
    "min_stratum": 1,
}


@dataclass(frozen=True, slots=True)
class FusionConfig:
    """How the runs of several searchers are fused."""

    method: str = "calibrated"
    """calibrated: weights learnt from the documents; convex: weight below; rrf: ranks alone."""

    normalise: str = "range"
    """How scores are made comparable: range (the searcher's usual one in this collection, from the
    calibration), or per query: min_max, z_score, or none."""

    weight: float = 0.5
    """Share of the dense side with convex, and with calibrated until there is a calibration."""

    generative: float = 0.0
    """Share of the generative side where a model is trained; the others share the rest. Models
    trained on a GPU helped the other two a little with 0.1; minutes on a CPU did not, so it has
    none unless given some."""

    depth: int = 100
    """Hits taken of each searcher before fusing."""

    constant: int = 60
    """Added to every rank with rrf: the larger, the less the first ranks stand out."""

    def __post_init__(self) -> None:
        problems = []
        if self.method not in METHODS:
            problems.append(f"method is {self.method!r}, expected one of {', '.join(METHODS)}")
        if self.normalise not in NORMALISATIONS:
            expected = ", ".join(NORMALISATIONS)
            problems.append(f"normalise is {self.normalise!r}, expected one of {expected}")
        if not 0.0 <= self.weight <= 1.0:
            problems.append(f"weight is {self.weight}, expected 0 to 1")
        if not 0.0 <= self.generative <= 1.0:
            problems.append(f"generative is {self.generative}, expected 0 to 1")
        if self.depth < 1:
            problems.append(f"depth is {self.depth}, expected at least 1")
        if self.constant < 0:
            problems.append(f"constant is {self.constant}, expected 0 or more")
        if problems:
            raise ConfigError("fusion: " + "; ".join(problems))

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

        >>> FusionConfig(generative=0.2).with_generative({"lexical": 0.5, "dense": 0.5})
        {'lexical': 0.4, 'dense': 0.4, 'generative': 0.2}
        """
        rest = 1.0 - self.generative
        return {name: rest * each for name, each in weights.items()} | {
            "generative": self.generative
        }


@dataclass(frozen=True, slots=True)
class CalibrationConfig:
    """How weights are chosen from known-item queries."""

    normalise: str = "range"
    """How scores are made comparable; the same as in fusion."""

    depth: int = 100
    """Hits taken of each searcher; the same as in fusion."""

    measure: str = "RR"
    """What the rank of the target is worth: RR or nDCG."""

    k: int = 10
    """Rank below which the target counts as not found."""

    steps: int = 10
    """Steps of the grid of weights: 10 tries 0, 0.1, … 1."""

    num_folds: int = 5
    """Parts that the documents are dealt into; each is scored with weights chosen on the others."""

    min_queries: int = 30
    """With fewer queries there is no evidence, and the mix is even."""

    margin: float = 0.005
    """What fusing may lose against the best searcher alone, where it might be chance."""

    confidence: float = 0.95
    """How sure it must be that a searcher alone is better, to use it alone for less."""

    num_resamples: int = 1000
    """Resamples of the bootstrap."""

    overlap_split: float = 0.5
    """Queries with at least this overlap are averaged apart from those with less."""

    min_stratum: int = 20
    """With fewer queries on either side of the split, all are averaged together."""

    seed: int = 0
    """Decides the folds and the resamples."""

    def __post_init__(self) -> None:
        problems = []
        if self.normalise not in NORMALISATIONS:
            expected = ", ".join(NORMALISATIONS)
            problems.append(f"normalise is {self.normalise!r}, expected one of {expected}")
        if self.measure not in MEASURES:
            expected = ", ".join(MEASURES)
            problems.append(f"measure is {self.measure!r}, expected one of {expected}")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                problems.append(f"{name} is {getattr(self, name)}, expected at least {least}")
        if not self.margin >= 0.0:
            problems.append(f"margin is {self.margin}, expected 0 or more")
        if not 0.5 <= self.confidence < 1.0:
            problems.append(f"confidence is {self.confidence}, expected 0.5 or more, below 1")
        if problems:
            raise ConfigError("calibration: " + "; ".join(problems))
