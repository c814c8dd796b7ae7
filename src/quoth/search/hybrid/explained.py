"""Say what a fused score is made of: what each run adds, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quoth.records import Part, Run
from quoth.search.hybrid.fusion import (
    FUSED,
    NOBODY,
    Scale,
    Unknown,
    UsualRanges,
    check_weights,
    estimate_unknown,
    find_normalisation,
)
from quoth.search.hybrid.fusion_config import FusionConfig


@dataclass(frozen=True, slots=True)
class Standing:
    """What one run says of one document, on the scale of its query; None where not found.

    `is_unknown` says that its searcher could not find it, as it does not hold it yet.
    """

    run: str
    score: float | None
    rank: int | None
    scale: Scale
    is_unknown: bool = False


def find_standings(
    runs: Sequence[Run],
    *,
    qid: str,
    docid: str,
    normalise: str,
    ranges: UsualRanges | None = None,
    unknown: Unknown = NOBODY,
) -> tuple[Standing, ...]:
    """Look a document up in the runs that are fused, each cut to the same depth.

    >>> from quoth.records import Hit
    >>> run = Run("dense", {"q": (Hit("x", 0.75), Hit("y", 0.25))})
    >>> [(standing,)] = [find_standings([run], qid="q", docid="y", normalise="min_max")]
    >>> standing.rank, standing.score, standing.scale.width
    (2, 0.25, 0.5)
    """
    find_scale = find_normalisation(normalise, ranges)
    standings = []
    for run in runs:
        hits = run.hits.get(qid, ())
        rank = next((rank for rank, hit in enumerate(hits, 1) if hit.docid == docid), None)
        score = None if rank is None else hits[rank - 1].score
        scale = find_scale(run.name, [hit.score for hit in hits])
        is_unknown = rank is None and docid in unknown.get(run.name, ())
        standings.append(Standing(run.name, score, rank, scale, is_unknown))
    return tuple(standings)


def explain_fused(
    standings: Sequence[Standing], config: FusionConfig, *, weights: Mapping[str, float]
) -> Part:
    """Say what a document's score in `fuse` is made of: one leaf per run, adding up to it.

    What a searcher's own score is made of does not add up to its share here, so it is no sub-part.
    """
    if config.method == "rrf":
        return explain_reciprocal_rank(standings, constant=config.constant)
    return explain_convex(standings, weights=weights)


def explain_reciprocal_rank(standings: Sequence[Standing], *, constant: int = 60) -> Part:
    """Say what a document's score in `reciprocal_rank` is made of.

    >>> from quoth.search.hybrid.fusion import min_max
    >>> standing = Standing("dense", 0.5, 3, min_max([0.9, 0.5]))
    >>> explain_reciprocal_rank([standing]).parts[0].label
    'dense: rank 3, 1 / (60 + 3)'
    """
    parts = (
        Part(f"{each.run}: not found", 0.0)
        if each.rank is None
        else Part(
            f"{each.run}: rank {each.rank}, 1 / ({constant} + {each.rank})",
            1.0 / (constant + each.rank),
        )
        for each in standings
    )
    return _sum_up(standings, parts, [1.0] * len(standings))


def explain_convex(standings: Sequence[Standing], *, weights: Mapping[str, float]) -> Part:
    """Say what a document's score in `convex` is made of.

    >>> from quoth.search.hybrid.fusion import min_max
    >>> standing = Standing("dense", 0.713, 3, min_max([0.9, 0.8, 0.713, 0.38]))
    >>> explain_convex([standing], weights={"dense": 1.0}).parts[0].label
    'dense: 0.713 scaled to 0.64, weight 1.00, rank 3'
    """
    check_weights(weights, [each.run for each in standings])
    parts = (_explain_share(each, weights[each.run]) for each in standings)
    return _sum_up(standings, parts, [weights[each.run] for each in standings])


def _explain_share(standing: Standing, weight: float) -> Part:
    scaled = standing.scale.apply(standing.score)
    end = f"scaled to {scaled:.2f}, weight {weight:.2f}"
    value = weight * scaled if weight else 0.0
    if standing.score is None:
        return Part(f"{standing.run}: not found, {end}", value)
    return Part(f"{standing.run}: {standing.score:.3f} {end}, rank {standing.rank}", value)


def _sum_up(standings: Sequence[Standing], parts: Iterable[Part], weights: Sequence[float]) -> Part:
    """Add the parts up, with estimates from runs that do not know the document."""
    known = list(parts)
    values = [
        None if standing.is_unknown else part.value
        for standing, part in zip(standings, known, strict=True)
    ]
    leaves = tuple(
        Part(f"{standing.run}: not encoded yet, counted as the others", value)
        if standing.is_unknown
        else part
        for standing, part, value in zip(
            standings, known, estimate_unknown(values, weights), strict=True
        )
    )
    return Part(FUSED, math.fsum(leaf.value for leaf in leaves), leaves)
