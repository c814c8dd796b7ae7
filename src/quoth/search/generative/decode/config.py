"""Settings of decoding; apart from it, so that `--help` needs no numba."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, CheckedConfig, OneOf, Range

METHODS = ("exact", "best_first", "skim", "beam")
ORDERS = ("ordered", "perm_slots", "bag", "sorted_trie", "pooled", "bag_cos")
LENGTHS = ("none", "mean", "power", "end")


@dataclass(frozen=True, slots=True)
class DecodeConfig(CheckedConfig, title="decode"):
    """How scores of phrases become the best identifiers of a query."""

    method: Annotated[str, OneOf(*METHODS)] = "exact"
    """exact or best_first (same result, computed differently); faster: skim (by reach) or beam."""

    order: Annotated[str, OneOf(*ORDERS)] = "bag_cos"
    """Which score a phrase gets: ordered, perm_slots, bag, sorted_trie, pooled or bag_cos."""

    length: Annotated[str, OneOf(*LENGTHS)] = "mean"
    """What makes lengths comparable: none, mean, power (of alpha) or end; not used by bag_cos."""

    alpha: Annotated[float, Range(0, 4)] = 1.0
    """With length = power: the sum is divided by the number of phrases to this power."""

    depth: AtLeastOne = 300
    """Identifiers decoded for a query at first; more where they name too few documents."""

    reach: AtLeastOne = 50_000
    """With method = skim: identifiers looked at, those whose rarest phrase scores best first."""

    beam: AtLeastOne = 64
    """With method = beam: states kept at each depth, for each length of identifier."""

    missing: Annotated[str, OneOf("exclude", "floor")] = "exclude"
    """Identifiers with a phrase outside the shortlist: exclude them, or floor that phrase."""

    floor: Annotated[float, Range(above=-1e30, below=1e30)] = -20.0
    """With missing = floor: what a phrase outside the shortlist adds."""

    def conflicts(self) -> Iterator[str]:
        """Say where phrases outside the shortlist cannot be heeded."""
        if self.missing == "floor" and self.method != "exact":
            yield f"missing = floor needs method = exact, found {self.method}"
