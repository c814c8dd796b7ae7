"""What is asked of a shard, and what it answers: plain columns, not an object per hit.

A shard knows the statistics of all shards, but tantivy scores with those of its own documents. So
for words it proposes its best documents with bounds on their scores, and only those which may be
among the best of all shards are scored exactly, by `settle`. For everything else its scores hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quoth.records import Hit, Query


@dataclass(frozen=True, slots=True)
class ShardQuestion:
    """Queries for one searcher of a shard."""

    queries: tuple[Query, ...]
    k: int
    searcher: str
    where: str = ""
    syntax: bool = True
    exactly: bool = False
    """Whether scores have to be exact at once, at a higher price."""

    prepared: Any = None
    """What the searcher makes of the queries before it looks into a shard, the same for all of
    them: vectors, or scores of phrases. None: the shard makes it."""


@dataclass(frozen=True, slots=True)
class ShardHits:
    """The best documents of a shard for one query, by score and docid.

    A document scores at least `least` and at most `most` times what is said here, give or take
    `margin`; both are 1 where that is its score. Where they are not, one more than was asked for is
    there, so that it can be told whether there may be others.
    """

    docids: tuple[str, ...]
    scores: tuple[float, ...]
    least: float = 1.0
    most: float = 1.0
    margin: float = 0.0

    @property
    def are_settled(self) -> bool:
        """Whether scores are exact."""
        return self.least == self.most == 1.0


def as_columns(hits: Sequence[Hit]) -> ShardHits:
    """Write hits whose scores hold as columns."""
    return ShardHits(tuple(hit.docid for hit in hits), tuple(hit.score for hit in hits))


def worth_settling(
    found: Mapping[int, ShardHits], k: int
) -> tuple[dict[int, list[str]], list[int]]:
    """Choose, by shard, the documents that may be among the k best of all shards.

    Also lists the shards that may have more of them than they proposed.

    >>> near = ShardHits(("a", "b", "c"), (9.0, 5.0, 1.0), least=0.9, most=1.1)
    >>> worth_settling({0: near, 1: ShardHits(("d",), (6.0,), 0.9, 1.1)}, 2)
    ({0: ['a', 'b'], 1: ['d']}, [])
    >>> worth_settling({0: ShardHits(("a", "b"), (9.0, 8.0), 0.8, 1.1)}, 1)[1]
    [0]
    """
    lowest = sorted(
        (score * own.least - own.margin for own in found.values() for score in own.scores),
        reverse=True,
    )
    floor = lowest[k - 1] if len(lowest) >= k else float("-inf")
    worth = {
        number: [
            docid
            for docid, score in zip(own.docids, own.scores, strict=True)
            if score * own.most + own.margin >= floor
        ]
        for number, own in found.items()
    }
    deeper = [
        number
        for number, own in found.items()
        if not own.are_settled and len(own.docids) > k and len(worth[number]) == len(own.docids)
    ]
    return {number: docids for number, docids in worth.items() if docids}, deeper
