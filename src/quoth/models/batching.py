"""How texts are put together: in batches of like length."""

from __future__ import annotations

from collections.abc import Sequence

BATCH_SUBWORDS = 8192
"""Subwords of a padded batch on a CPU."""


def batches_by_length(
    lengths: Sequence[int], *, budget: int = BATCH_SUBWORDS, most: int | None = None
) -> list[list[int]]:
    """Group positions, longest first: within a budget of padded subwords, and a number of rows.

    >>> batches_by_length([3, 9, 4], budget=9)
    [[1], [2, 0]]
    >>> batches_by_length([3, 9, 4, 1], budget=9, most=2)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        size = len(batches[-1]) + 1 if batches else 0
        fits = size and size * lengths[batches[-1][0]] <= budget
        if fits and (most is None or size <= most):
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches
