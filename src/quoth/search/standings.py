"""What the first search, a reranker and likeness say of each hit, added up; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quoth.records import Hit
from quoth.search.hybrid.fusion import Scale, min_max


@dataclass(frozen=True, slots=True)
class MixedStanding:
    """What the first search and who reads say of one hit; nothing is read below the depth."""

    rank: int
    first: float
    scaled_first: float
    read: float | None
    scaled_read: float
    score: float
    similarity: float | None = None
    """That of late interaction; None where it was not looked at."""

    lifted: float = 0.0
    """What the similarity adds to the score."""

    likeness: float | None = None
    """The cosine to the best hits; None where it was not looked at."""

    raised: float = 0.0
    """What the likeness adds to the score."""


def lift(
    standings: Sequence[MixedStanding], similarities: Mapping[int, float], *, weight: float
) -> tuple[MixedStanding, ...]:
    """Lift hits by how much more similar to the query they are than the least similar of them.

    `similarities` has those that were looked at, by place.

    >>> standings = mix([Hit("a", 3.0), Hit("b", 2.0), Hit("c", 1.0)], [0.0, 0.0, 0.0], weight=0.0)
    >>> [each.score for each in lift(standings, {0: 0.25, 1: 0.75}, weight=2.0)]
    [1.0, 1.5, 0.0]
    """
    least = min(similarities.values(), default=0.0)
    lifted = list(standings)
    for at, own in similarities.items():
        more = weight * (own - least)
        lifted[at] = replace(
            standings[at], similarity=own, lifted=more, score=standings[at].score + more
        )
    return tuple(lifted)


def raise_alike(
    standings: Sequence[MixedStanding], cosines: Sequence[float], *, weight: float
) -> list[MixedStanding]:
    """Raise hits by how much more they are like the best ones than the one that is least so."""
    least = min(cosines)
    raised = [weight * (cosine - least) for cosine in cosines]
    return [
        replace(each, likeness=cosine, raised=more, score=each.score + more)
        for each, cosine, more in zip(standings, cosines, raised, strict=True)
    ]


def mix(
    hits: Sequence[Hit], scores: Sequence[float], *, weight: float, width: float | None = None
) -> tuple[MixedStanding, ...]:
    """Mix the scores of the first search with those read of as many of its best hits.

    Below those, scores fall from the least that a reranked hit can have by the same scale.

    >>> hits = [Hit("a", 9.0), Hit("b", 5.0), Hit("c", 1.0), Hit("d", 0.0)]
    >>> [each.score for each in mix(hits, [-30.0, -10.0, -20.0], weight=0.25)]
    [0.75, 0.625, 0.125, -0.125]
    >>> [each.score for each in mix(hits, [-30.0, -10.0, -20.0], weight=0.25, width=5.0)]
    [6.75, 4.75, 1.25, 0.0]
    """
    depth = len(scores)
    second = min_max(scores)
    if width is None:
        first = min_max([hit.score for hit in hits[:depth]])
        least = (1 - weight) * first.apply(first.offset)
    else:
        first, least = Scale(0.0, 1.0, flat=0.0, absent=0.0), 0.0
        second = replace(second, width=width)
    standings = []
    for rank, hit in enumerate(hits, start=1):
        if rank > depth:
            below = (hit.score - first.offset) / (first.width or 1.0)
            score = least + below if width is None else (1 - weight) * below
            standings.append(MixedStanding(rank, hit.score, below, None, 0.0, score))
            continue
        read = scores[rank - 1]
        scaled, scaled_read = first.apply(hit.score), second.apply(read)
        score = (1 - weight) * scaled + weight * scaled_read
        standings.append(MixedStanding(rank, hit.score, scaled, read, scaled_read, score))
    return tuple(standings)
