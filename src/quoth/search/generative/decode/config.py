"""Settings of decoding; apart from it, so that `--help` needs no numba."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, CheckedConfig, OneOf, Range

METHODS = ("exact", "best_first", "skim", "beam")
COSINES = ("bag_cos", "bag_max")
"""Orders that weigh phrases and divide by the length of their sum."""

BY_POOLED = ("pooled", *COSINES)
"""Orders that need one score per phrase, none per slot."""

ORDERS = ("ordered", "perm_slots", "bag", "sorted_trie", *BY_POOLED)
LENGTHS = ("none", "mean", "power", "end")


@dataclass(frozen=True, slots=True)
class DecodeConfig(CheckedConfig, title="decode"):
    """How scores of phrases become the best identifiers of a query."""

    method: Annotated[str, OneOf(*METHODS)] = "exact"
    """exact or best_first (same result, computed differently); skim (limited by reach) or beam are
    faster."""

    order: Annotated[str, OneOf(*ORDERS)] = "bag_max"
    """How a phrase is scored: ordered, perm_slots, bag, sorted_trie, pooled, bag_cos or bag_max,
    which is bag_cos for models without vectors of words."""

    length: Annotated[str, OneOf(*LENGTHS)] = "mean"
    """Length normalisation: none, mean, power (see alpha) or end; bag_cos and bag_max ignore it."""

    alpha: Annotated[float, Range(0, 4)] = 1.0
    """With length = power: the sum is divided by the number of phrases raised to this power."""

    depth: AtLeastOne = 300
    """Identifiers decoded per query at first; more are decoded if these yield too few documents."""

    reach: AtLeastOne = 50_000
    """With method = skim: identifiers examined, starting with those whose rarest phrase scores
    best."""

    beam: AtLeastOne = 64
    """With method = beam: states kept at each depth, for each identifier length."""

    missing: Annotated[str, OneOf("exclude", "floor")] = "exclude"
    """What to do with identifiers that have a phrase outside the shortlist: exclude them, or score
    that phrase with floor."""

    floor: Annotated[float, Range(above=-1e30, below=1e30)] = -20.0
    """With missing = floor: score of a phrase outside the shortlist."""

    def conflicts(self) -> Iterator[str]:
        """Say where phrases outside the shortlist cannot be heeded."""
        if self.missing == "floor" and self.method != "exact":
            yield f"missing = floor needs method = exact, found {self.method}"
