"""How a shortlist is made: the method, and the sizes of what it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError
from quoth.models.pixar.shortlist.rows import STORAGES

METHODS = ("full", "centroids")

CHOICES: dict[str, tuple[str, ...]] = {
    "method": METHODS,
    "storage": STORAGES[:3],
    "assign": ("cosine", "dot"),
}


@dataclass(frozen=True, slots=True)
class ShortlistConfig:
    """Settings of a shortlist; they are saved with it."""

    method: str = "centroids"
    """How phrases are chosen: by scoring all (full), or from lists that the pooled vector looks up
    for all slots (centroids, PIXAR's own)."""

    storage: str = "int8"
    """How rows are kept for exact scores: float32, bfloat16, or int8 with a scale per row."""

    num_centroids: int = 4096
    """Centroids: the paper's m."""

    list_length: int = 20_000
    """Phrases listed for each: the paper's r."""

    num_lists: int = 5
    """Lists that are joined for a query: the paper's k. Only with centroids."""

    assign: str = "cosine"
    """How the pooled vector chooses centroids: cosine, or dot as in the paper, where longer
    centroids draw more queries."""

    depth: int = 100
    """Best phrases taken of each vector where all are scored."""

    iterations: int = 20
    """Rounds of k-means."""

    seed: int = 0
    """Decides where k-means starts."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        sizes = ("num_centroids", "list_length", "num_lists", "depth", "iterations")
        problems += [
            f"{name} is {getattr(self, name)}, expected ≥ 1"
            for name in sizes
            if getattr(self, name) < 1
        ]
        if self.method == "centroids" and self.num_lists > self.num_centroids:
            problems.append(
                f"num_lists is {self.num_lists}, but there are {self.num_centroids} centroids"
            )
        if problems:
            raise ConfigError("shortlist: " + "; ".join(problems))
