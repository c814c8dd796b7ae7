"""From scored vectors to ranked rows: the best unit of each row, best row first, ties by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer]
Numbers = NDArray[np.floating]


class Found(NamedTuple):
    """A row, the unit of it that scored best, and that score."""

    row: int
    unit: int
    score: float


def best_unit_per_row(rows: Integers, units: Integers, scores: Numbers) -> NDArray[np.intp]:
    """Point at the best vector of each row, best row first; ties by unit, then by row.

    >>> best_unit_per_row(np.array([7, 7, 3]), np.array([0, 1, 0]), np.array([1.0, 2.0, 2.0]))
    array([2, 1])
    """
    order = np.lexsort((units, -scores, rows))
    in_order = rows[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = in_order[1:] != in_order[:-1]
    best = order[is_first]
    ranked: NDArray[np.intp] = best[np.lexsort((rows[best], -scores[best]))]
    return ranked


def rank(rows: Integers, units: Integers, scores: Numbers, *, k: int) -> list[Found]:
    """List the k best rows with their best unit."""
    best = best_unit_per_row(rows, units, scores)[:k]
    parts = rows[best].tolist(), units[best].tolist(), scores[best].tolist()
    return [Found(*each) for each in zip(*parts, strict=True)]


def merge_top_k(lists: Sequence[Sequence[Found]], *, k: int) -> list[Found]:
    """Join lists of the k best of each part into the k best of all.

    >>> merge_top_k([[Found(1, 0, 0.5)], [Found(2, 3, 0.9), Found(1, 4, 0.6)]], k=2)
    [Found(row=2, unit=3, score=0.9), Found(row=1, unit=4, score=0.6)]
    """
    every = [found for each in lists for found in each]
    best: dict[int, Found] = {}
    for found in sorted(every, key=lambda each: (-each.score, each.row, each.unit)):
        best.setdefault(found.row, found)
    return list(best.values())[:k]


def kth_row_score(rows: Integers, scores: Numbers, *, k: int) -> float:
    """Return the score of the k-th best row, minus infinity where there are fewer rows.

    >>> kth_row_score(np.array([1, 1, 2, 3]), np.array([9.0, 8.0, 7.0, 6.0]), k=2)
    7.0
    """
    depth = 2 * k
    while depth < len(scores):  # look at the best few only, as long as they are of k rows
        top = np.argpartition(scores, len(scores) - depth)[-depth:]
        best = _row_scores(rows[top], scores[top])
        if len(best) >= k:
            return float(best[k - 1])
        depth *= 4
    best = _row_scores(rows, scores)
    return float(best[k - 1]) if len(best) >= k else -math.inf


def _row_scores(rows: Integers, scores: Numbers) -> Numbers:
    """Best score of each row, best first."""
    order = np.argsort(-scores, kind="stable")
    _distinct, first = np.unique(rows[order], return_index=True)
    best: Numbers = scores[order[np.sort(first)]]
    return best
