"""How much words and vectors count where one of many passages is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

NEARNESS = 2.0
"""Weight of a cosine beside words, which count at most 1; chosen on questions that readers are
trained on (`benchmarks.hybrid.nearness`)."""


def add_nearness(words: Sequence[float], cosines: Mapping[int, float]) -> list[float]:
    """Scale what words count to 0 … 1, and add the cosines of passages with a query.

    `cosines` has those that are known, by the passage's number; the others get their mean.

    >>> add_nearness([4.0, 2.0, 0.0], {1: 0.5, 2: 0.25})
    [1.75, 1.5, 0.5]
    """
    most, usual = max(words, default=0.0) or 1.0, fmean(cosines.values()) if cosines else 0.0
    return [own / most + NEARNESS * cosines.get(at, usual) for at, own in enumerate(words)]
