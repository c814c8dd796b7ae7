"""How a shortlist is made: the method, and the sizes of what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, CheckedConfig, OneOf, Seed
from quoth.models.pixar.shortlist.rows import STORAGES

METHODS = ("full", "centroids")

Assignment = Annotated[str, OneOf("cosine", "dot")]
"""How a pooled vector chooses centroids."""


@dataclass(frozen=True, slots=True)
class ShortlistConfig(CheckedConfig, title="shortlist"):
    """Settings of a shortlist; they are saved with it."""

    method: Annotated[str, OneOf(*METHODS)] = "centroids"
    """How phrases are chosen: by scoring all (full), or from lists that the pooled vector looks up
    for all slots (centroids, PIXAR's own)."""

    storage: Annotated[str, OneOf(*STORAGES[:3])] = "int8"
    """How rows are kept for exact scores: float32, bfloat16, or int8 with a scale per row."""

    num_centroids: AtLeastOne = 4096
    """Centroids: the paper's m."""

    list_length: AtLeastOne = 20_000
    """Phrases listed for each: the paper's r."""

    num_lists: AtLeastOne = 5
    """Lists that are joined for a query: the paper's k. Only with centroids."""

    assign: Assignment = "cosine"
    """How the pooled vector chooses centroids: cosine, or dot as in the paper, where longer
    centroids draw more queries."""

    depth: AtLeastOne = 100
    """Best phrases taken of each vector where all are scored."""

    iterations: AtLeastOne = 20
    """Rounds of k-means."""

    seed: Seed = 0
    """Decides where k-means starts."""

    def conflicts(self) -> Iterator[str]:
        """Say where more lists are to be joined than there are."""
        if self.method == "centroids" and self.num_lists > self.num_centroids:
            yield f"num_lists is {self.num_lists}, but there are {self.num_centroids} centroids"
