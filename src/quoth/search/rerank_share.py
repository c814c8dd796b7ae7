"""Choose the share of reranking from known-item queries: no labels, the documents judge.

A known-item query was made from one document, its target. Shares on a grid are compared by the rank
that the target gets. Such queries are easier than real ones and flatter who reads, so the evidence
only moves a share that was found good elsewhere: of all shares within one standard error of the
best (of their paired difference), the one nearest that default is taken, and half the way to it.

Pure, and the same arguments give the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quoth.records import Hit
from quoth.search.hybrid.calibration import (
    WORTH,
    ShareCalibration,
    Strata,
    near_best,
    stratified_mean,
    stratify,
)
from quoth.search.hybrid.fusion_config import CalibrationConfig
from quoth.search.standings import mix


@dataclass(frozen=True, slots=True)
class RerankTrial:
    """What a known-item query found, and what was read of it.

    `overlap` is the share of the query's terms that occur in the rest of the target.
    """

    target: str
    overlap: float
    hits: Sequence[Hit]
    scores: Sequence[float]


def calibrate_share(
    trials: Sequence[RerankTrial],
    *,
    default: float,
    model: str,
    config: CalibrationConfig,
    width: float | None = None,
) -> ShareCalibration:
    """Choose the share of reranking; the default where too few trials found their target."""
    if len(trials) < config.min_queries:
        reason = f"{len(trials)} known-item queries are too few to tell: the default share"
        return ShareCalibration(default, len(trials), {}, reason, model)

    def worth(share: float) -> list[float]:
        return [worth_of(each, share, width, config) for each in trials]

    gains = {step / config.steps: worth(step / config.steps) for step in range(config.steps + 1)}
    strata = tuple(stratify([each.overlap for each in trials], config=config).values())
    chosen = choose_share(gains, default=default, strata=strata)
    share = round((default + chosen) / 2, 3)
    reason = (
        "known items say nothing against the default share"
        if chosen == default
        else f"known items are found best with {chosen:.1f}; half the way from {default:g} to it"
    )
    scores = {
        "first": stratified_mean(gains[0.0], strata),
        "reranked": stratified_mean(worth(share), strata),
    }
    return ShareCalibration(share, len(trials), scores, reason, model)


def choose_share(
    gains: Mapping[float, Sequence[float]], *, default: float, strata: Strata
) -> float:
    """Choose the share nearest the default among those within one standard error of the best.

    >>> gains = {0.0: [0.1] * 3, 0.5: [1.0, 0.5, 0.5], 1.0: [1.0, 0.5, 1.0]}
    >>> choose_share(gains, default=0.25, strata=[range(3)])
    0.5
    """
    by_distance = dict(sorted(gains.items(), key=lambda item: (abs(item[0] - default), item[0])))
    return near_best(by_distance, strata=strata)[0]


def worth_of(
    trial: RerankTrial, share: float, width: float | None, config: CalibrationConfig
) -> float:
    """Return what the target's rank is worth with some share."""
    standings = mix(trial.hits, trial.scores, weight=share, width=width)
    docids = (hit.docid for hit in trial.hits)
    ranked = sorted((-each.score, docid) for each, docid in zip(standings, docids, strict=True))
    rank = next(at for at, (_score, docid) in enumerate(ranked, 1) if docid == trial.target)
    return WORTH[config.measure](rank) if rank <= config.k else 0.0
