"""How much of a collection has its vectors, while an encoding is under way or was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """Vectors that are there, and passages that will have one."""

    vectors: int
    passages: int

    def __str__(self) -> str:
        return f"vectors cover {self.vectors:,} of {self.passages:,} passages"


@dataclass(frozen=True, slots=True)
class HeldVectors:
    """How many documents there are, how many have some of their vectors, and what these cover."""

    documents: int
    held: int
    coverage: Coverage


def join_held(parts: Sequence[HeldVectors]) -> HeldVectors:
    """Add up what several shards hold.

    >>> found = join_held([HeldVectors(3, 1, Coverage(2, 9)), HeldVectors(5, 5, Coverage(6, 6))])
    >>> found.documents, found.held, str(found.coverage)
    (8, 6, 'vectors cover 8 of 15 passages')
    """
    return HeldVectors(
        sum(each.documents for each in parts),
        sum(each.held for each in parts),
        Coverage(
            sum(each.coverage.vectors for each in parts),
            sum(each.coverage.passages for each in parts),
        ),
    )
