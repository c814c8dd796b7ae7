"""Which hits may score the same: those that single precision cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from quoth.records import Hit

ROUNDING = 1.0 + 1e-5
"""By what factor scores may be off: tantivy computes in single precision."""

LEAST_STEP = 2e-6
"""By how much they may be off besides: the idf of a term that is in nearly all documents is the
logarithm of a number near 1."""


def tie_start(hits: Sequence[Hit], at: int) -> int:
    """Find the first hit whose score may be that of the one at a place, near tie by near tie."""
    while 0 < at < len(hits) and _may_tie(hits[at - 1], hits[at]):
        at -= 1
    return at


def has_ties(hits: Sequence[Hit]) -> bool:
    """Tell whether the score of any hit may be that of the one before it."""
    scores = [hit.score for hit in hits]
    return any(after * ROUNDING + LEAST_STEP >= before for before, after in pairwise(scores))


def near_ties(hits: Sequence[Hit]) -> Iterator[list[Hit]]:
    """Yield stretches of hits, each score of which may be that of the one before it.

    >>> [len(group) for group in near_ties([Hit("a", 2.0), Hit("b", 1.000001), Hit("c", 1.0)])]
    [1, 2]
    """
    start = 0
    for at, (before, after) in enumerate(pairwise(hits), start=1):
        if not _may_tie(before, after):
            yield list(hits[start:at])
            start = at
    if hits:
        yield list(hits[start:])


def settle(groups: Iterable[Sequence[Hit]], exact: Mapping[str, float | None]) -> tuple[Hit, ...]:
    """Order the hits of each group by their exact scores, where these were computed.

    >>> settle([[Hit("b", 1.000001), Hit("a", 1.0)]], {"a": 1.25, "b": 1.0})
    (Hit(docid='a', score=1.25, passage=None), Hit(docid='b', score=1.0, passage=None))
    """
    settled: list[Hit] = []
    for group in groups:
        scored = [
            hit if (score := exact.get(hit.docid)) is None else Hit(hit.docid, score)
            for hit in group
        ]
        settled += sorted(scored, key=lambda hit: (-hit.score, hit.docid))
    return tuple(settled)


def _may_tie(before: Hit, after: Hit) -> bool:
    return after.score * ROUNDING + LEAST_STEP >= before.score
