"""How much of what should be generated a shortlist contains: the measure of its second stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PADDING = -1
"""Stands for no phrase where an identifier is shorter than others."""


@dataclass(frozen=True, slots=True)
class GoldRecall:
    """Shares of what identifiers consist of that was on the shortlist of their query."""

    phrases: float
    """Of all phrases."""

    slots: tuple[float, ...]
    """Of the phrases at each position; 0 where no identifier reaches it."""

    identifiers: float
    """Of identifiers, all of whose phrases were there: no other can be generated."""

    mean_length: float
    """Phrases on a shortlist."""


def measure_recall(
    shortlists: Sequence[NDArray[np.int32]],  # each ascending
    targets: NDArray[np.int64],  # (N, L), filled up with `PADDING`
) -> GoldRecall:
    """Look each query's identifier up in its shortlist.

    >>> lists = [np.array([2, 5], dtype=np.int32), np.array([7], dtype=np.int32)]
    >>> found = measure_recall(lists, np.array([[2, 5], [7, 2]]))
    >>> found.phrases, found.slots, found.identifiers, found.mean_length
    (0.75, (1.0, 0.5), 0.5, 1.5)
    """
    real = targets != PADDING
    pairs = zip(targets, shortlists, strict=True)
    inside = np.stack([np.isin(row, listed) for row, listed in pairs]) & real
    reached = np.maximum(real.sum(axis=0), 1)
    return GoldRecall(
        phrases=float(inside.sum() / max(1, real.sum())),
        slots=tuple((inside.sum(axis=0) / reached).tolist()),
        identifiers=float((inside == real).all(axis=1).mean()),
        mean_length=float(np.mean([len(each) for each in shortlists])),
    )
