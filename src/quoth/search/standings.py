"""What the first search, a reranker and likeness say of each hit, added up; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from quoth.records import Hit
from quoth.search.hybrid.fusion import Scale, min_max


class Look(NamedTuple):
    """What a second look says of one hit; a voice that was not heard says 0."""

    similarity: float = 0.0
    """By late interaction."""

    likelihood: float = 0.0
    """log p(query | passage)."""


NO_LOOK = Look()
"""What says nothing, or weighs nothing."""


@dataclass(frozen=True, slots=True)
class MixedStanding:
    """What the first search and who reads say of one hit; nothing is read below the depth."""

    rank: int
    first: float
    scaled_first: float
    read: float | None
    scaled_read: float
    score: float
    look: Look | None = None
    """What a second look says; None where there was none."""

    lifted: Look = NO_LOOK
    """What either voice adds to the score."""

    likeness: float | None = None
    """The cosine to the best hits; None where it was not looked at."""

    raised: float = 0.0
    """What the likeness adds to the score."""


def lift(
    standings: Sequence[MixedStanding], looks: Mapping[int, Look], *, weights: Look
) -> tuple[MixedStanding, ...]:
    """Lift hits by how much more a second look says of them than of the others looked at.

    `looks` has those, by place. Counted from their mean, they keep their distance to the hits that
    were not looked at, as if these said what those do on average.

    >>> standings = mix([Hit("a", 3.0), Hit("b", 2.0), Hit("c", 1.0)], [0.0, 0.0, 0.0], weight=0.0)
    >>> looks = {0: Look(0.25, -9.0), 1: Look(0.75, -8.0)}  # means: 0.5 and -8.5
    >>> [each.score for each in lift(standings, looks, weights=Look(2.0, 0.5))]
    [0.25, 1.25, 0.0]
    """
    if not looks:
        return tuple(standings)
    means = Look(*map(fmean, zip(*looks.values(), strict=True)))
    lifted = list(standings)
    for at, own in looks.items():
        more = Look(*(w * (each - mean) for w, each, mean in zip(weights, own, means, strict=True)))
        score = standings[at].score + more.similarity + more.likelihood
        lifted[at] = replace(standings[at], look=own, lifted=more, score=score)
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
