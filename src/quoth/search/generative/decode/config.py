"""Settings of decoding; apart from it, so that `--help` needs no numba."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

METHODS = ("exact", "best_first", "skim", "beam")
ORDERS = ("ordered", "perm_slots", "bag", "sorted_trie", "pooled", "bag_cos")
LENGTHS = ("none", "mean", "power", "end")
MISSING = ("exclude", "floor")


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """How scores of phrases become the best identifiers of a query."""

    method: str = "exact"
    """exact or best_first (the same by another way), or quicker: skim (by reach) or beam."""

    order: str = "pooled"
    """Which score a phrase gets: ordered, perm_slots, bag, sorted_trie, pooled or bag_cos."""

    length: str = "mean"
    """What makes lengths comparable: none, mean, power (of alpha) or end; not used by bag_cos."""

    alpha: float = 1.0
    """With length = power: the sum is divided by the number of phrases to this power."""

    depth: int = 300
    """Most identifiers that are given for a query."""

    reach: int = 50_000
    """With method = skim: identifiers looked at, those whose rarest phrase scores best first."""

    beam: int = 64
    """With method = beam: states kept at each depth, for each length of identifier."""

    missing: str = "exclude"
    """Identifiers with a phrase outside the shortlist: exclude them, or floor that phrase."""

    floor: float = -20.0
    """With missing = floor: what a phrase outside the shortlist adds."""

    def __post_init__(self) -> None:
        problems = []
        for name, known in (
            ("method", METHODS),
            ("order", ORDERS),
            ("length", LENGTHS),
            ("missing", MISSING),
        ):
            found = getattr(self, name)
            if found not in known:
                problems.append(f'{name} is "{found}", expected one of {", ".join(known)}')
        for name in ("depth", "reach", "beam"):
            if getattr(self, name) < 1:
                problems.append(f"{name} is {getattr(self, name)}, expected 1 or more")
        if not 0.0 <= self.alpha <= 4.0:
            problems.append(f"alpha is {self.alpha}, expected 0 to 4")
        if not -1e30 < self.floor < 1e30:
            problems.append(f"floor is {self.floor}, expected a finite number")
        if self.missing == "floor" and self.method != "exact":
            problems.append(f"missing = floor needs method = exact, found {self.method}")
        if problems:
            raise ConfigError(f"decode: {'; '.join(problems)}")
