"""Choose the weights of fusion from known-item queries: no labels, the documents judge.

A known-item query was made from one document, its target, so the rank of the target says how well a
searcher does. Weights on a grid are compared by that rank; which are best is decided on some folds
of the documents and scored on the others, so that no weight is praised for fitting its own queries.

Before anything is weighed, the queries tell how far the scores of each searcher usually reach,
which makes the scores comparable; on that footing the even mix is a good one.

Three rules keep the choice careful. *Flat evidence*: of all weights within one standard error of
the best (of their paired difference, after Breiman et al. 1984), the one nearest the even mix is
taken. *Guard*: one searcher is used alone where it is better than fusing, by more than a margin or
beyond chance. *Leak*: queries
copied from a document share its words, which flatters lexical search, so queries whose terms recur
in the rest of the document and queries whose terms do not are averaged apart, then together.

Pure, and the same arguments give the same numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from statistics import fmean, variance
from typing import Any, TypeVar

from quoth.errors import ConfigError, Damaged
from quoth.records import Run
from quoth.search.hybrid.fusion import FUSED, UsualRanges, convex, measure_ranges
from quoth.search.hybrid.fusion_config import CalibrationConfig

WORTH: Mapping[str, Callable[[int], float]] = {
    "RR": lambda rank: 1.0 / rank,
    "nDCG": lambda rank: 1.0 / math.log2(1 + rank),
}
"""What a target at a rank is worth: reciprocal rank, or nDCG with one relevant document."""

Weights = tuple[float, ...]
"""One weight per searcher, in their order."""

_K = TypeVar("_K")

Strata = Sequence[Sequence[int]]
"""Groups of positions in the list of queries; each group counts the same."""


@dataclass(frozen=True, slots=True)
class Target:
    """The document that a known-item query was made from.

    `overlap` is the share of the query's terms that occur in the rest of the document.
    """

    qid: str
    docid: str
    overlap: float


@dataclass(frozen=True, slots=True)
class Stratum:
    """What each searcher, and fusing them, scored on queries of like overlap."""

    name: str
    num_queries: int
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ShareCalibration:
    """The share that reranking gets, why, and by which model; scores without and with it."""

    share: float
    num_queries: int
    scores: Mapping[str, float]
    reason: str
    model: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """The weights to fuse with, and why.

    `scores` has each searcher alone and, under "fused", cross-validated fusion: the mean of the
    strata's. `fell_back` says that one searcher got all the weight because fusing did not help;
    `ranges` has how far each searcher's scores usually reach, `rerank` what reranking is worth.
    """

    weights: Mapping[str, float]
    num_queries: int
    scores: Mapping[str, float]
    strata: tuple[Stratum, ...]
    fell_back: bool
    reason: str
    config: CalibrationConfig
    ranges: Mapping[str, float] = field(default_factory=dict)
    rerank: ShareCalibration | None = None

    def usual_ranges(self) -> UsualRanges:
        """Return the ranges as fusion takes them."""
        return UsualRanges(self.config.depth, self.ranges)

    def to_record(self) -> dict[str, Any]:
        """Turn into what JSON can hold."""
        return asdict(self) | {"strata": [asdict(stratum) for stratum in self.strata]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Calibration:
        """Turn back from what `to_record` gave."""
        try:
            strata = tuple(Stratum(**stratum) for stratum in record["strata"])
            config = CalibrationConfig(**record["config"])
            found = record.get("rerank")
            rerank = ShareCalibration(**found) if found else None
            return cls(**{**record, "strata": strata, "config": config, "rerank": rerank})
        except (KeyError, TypeError) as error:
            raise Damaged(
                f"a calibration was written otherwise than expected ({error}); calibrate again"
            ) from error


def calibrate(
    runs: Sequence[Run], targets: Sequence[Target], config: CalibrationConfig
) -> Calibration:
    """Choose the weights of the runs, one run per searcher, each cut to the depth of fusion."""
    names = _check_names(runs)
    if len(targets) < config.min_queries or len({target.docid for target in targets}) < 2:
        return _mix_evenly(names, len(targets), config)
    qids = dict.fromkeys(target.qid for target in targets)
    asked = [Run(run.name, {qid: run.hits.get(qid, ()) for qid in qids}) for run in runs]
    ranges = measure_ranges(asked, depth=config.depth)
    gains = {
        weights: _score_queries(asked, targets, weights=weights, ranges=ranges, config=config)
        for weights in weight_grid(len(runs), steps=config.steps)
    }
    strata_by_name = stratify([target.overlap for target in targets], config=config)
    strata = tuple(strata_by_name.values())
    columns = {
        **{name: gains[_alone(names, name)] for name in names},
        FUSED: _cross_validate(gains, targets, strata=strata, config=config),
    }
    weights, fell_back, reason = _decide(
        columns, choose_weights(gains, strata=strata), strata=strata, config=config
    )
    return Calibration(
        weights=dict(zip(names, weights, strict=True)),
        num_queries=len(targets),
        scores={name: stratified_mean(values, strata) for name, values in columns.items()},
        strata=tuple(_report(name, each, columns) for name, each in strata_by_name.items()),
        fell_back=fell_back,
        reason=reason,
        config=config,
        ranges=ranges.widths,
    )


# --- deciding ------------------------------------------------------------------------------------


def _decide(
    columns: Mapping[str, Sequence[float]],
    chosen: Weights,
    *,
    strata: Strata,
    config: CalibrationConfig,
) -> tuple[Weights, bool, str]:
    """Keep the chosen weights or fall back to one searcher: weights, whether it did, and why.

    The burden of proof lies with the single searcher: known items are copied from the documents and
    tell less about it than real queries would, and two searchers rarely err alike.
    """
    names = [name for name in columns if name != FUSED]
    best = max(names, key=lambda name: stratified_mean(columns[name], strata))
    loss, surely = _compare(columns[best], columns[FUSED], strata=strata, config=config)
    found = f"fusing scores {0.0 - loss:+.3f} against {best} alone"
    if loss > config.margin or (loss > 0.0 and surely > 0.0):
        return _alone(names, best), True, f"{found}: {best} is used alone"
    return chosen, False, f"{found}; the mix is as even as the evidence allows"


def _compare(
    first: Sequence[float], second: Sequence[float], *, strata: Strata, config: CalibrationConfig
) -> tuple[float, float]:
    """Return the mean difference, paired by query, and what it surely is at the least."""
    differences = [a - b for a, b in zip(first, second, strict=True)]
    return stratified_mean(differences, strata), lower_bound(
        differences,
        strata,
        confidence=config.confidence,
        num_resamples=config.num_resamples,
        seed=config.seed,
    )


def choose_weights(gains: Mapping[Weights, Sequence[float]], *, strata: Strata) -> Weights:
    """Choose the weights nearest the even mix among those within one standard error of the best.

    >>> gains = {(1.0, 0.0): [1.0, 0.5, 1.0], (0.5, 0.5): [1.0, 0.5, 0.5], (0.0, 1.0): [0.1] * 3}
    >>> choose_weights(gains, strata=[range(3)])  # the best by 1/6, with a standard error of 1/6
    (0.5, 0.5)
    """
    means = {weights: stratified_mean(values, strata) for weights, values in gains.items()}
    by_evenness = dict(sorted(gains.items(), key=lambda item: _unevenness(item[0])))
    near = near_best(by_evenness, strata=strata)
    return min(near, key=lambda weights: (_unevenness(weights), -means[weights]))


def near_best(gains: Mapping[_K, Sequence[float]], *, strata: Strata) -> list[_K]:
    """List the choices within one standard error of the best (of equals the first), paired."""
    means = {choice: stratified_mean(values, strata) for choice, values in gains.items()}
    best = max(means, key=means.__getitem__)

    def is_near(choice: _K) -> bool:
        differences = [a - b for a, b in zip(gains[best], gains[choice], strict=True)]
        error = standard_error(differences, strata)
        return stratified_mean(differences, strata) <= error * (1.0 + 1e-9)

    return list(filter(is_near, gains))


def weight_grid(num_searchers: int, *, steps: int) -> tuple[Weights, ...]:
    """List all weights that are multiples of 1 / steps and add up to 1.

    >>> weight_grid(2, steps=2)
    ((0.0, 1.0), (0.5, 0.5), (1.0, 0.0))
    >>> len(weight_grid(3, steps=10))  # 11 + 10 + … + 1
    66
    """

    def share_out(left: int, places: int) -> Iterator[tuple[int, ...]]:
        if places == 1:
            yield (left,)
            return
        for first in range(left + 1):
            yield from ((first, *rest) for rest in share_out(left - first, places - 1))

    return tuple(tuple(n / steps for n in shares) for shares in share_out(steps, num_searchers))


def _unevenness(weights: Weights) -> float:
    """Say how far weights are from the even mix.

    >>> _unevenness((0.75, 0.25)) == 2 * 0.25**2
    True
    """
    return round(math.fsum((weight - 1.0 / len(weights)) ** 2 for weight in weights), 12)


def _alone(names: Sequence[str], best: str) -> Weights:
    return tuple(1.0 if name == best else 0.0 for name in names)


# --- scoring -------------------------------------------------------------------------------------


def _score_queries(
    runs: Sequence[Run],
    targets: Sequence[Target],
    *,
    weights: Weights,
    ranges: UsualRanges,
    config: CalibrationConfig,
) -> list[float]:
    """Say what each target's rank is worth when the runs are fused with some weights."""
    weight_by_name = {run.name: weight for run, weight in zip(runs, weights, strict=True)}
    fused = convex(
        runs, weights=weight_by_name, normalise=config.normalise, ranges=ranges, k=config.k
    )
    worth = WORTH[config.measure]
    scores = []
    for target in targets:
        ranked = enumerate(fused.hits[target.qid], 1)
        scores.append(next((worth(rank) for rank, hit in ranked if hit.docid == target.docid), 0.0))
    return scores


def _cross_validate(
    gains: Mapping[Weights, Sequence[float]],
    targets: Sequence[Target],
    *,
    strata: Strata,
    config: CalibrationConfig,
) -> list[float]:
    """Score each query with the weights chosen on the folds that its document is not in."""
    fold_by_docid = deal_folds(
        {target.docid for target in targets}, num_folds=config.num_folds, seed=config.seed
    )
    folds = [fold_by_docid[target.docid] for target in targets]
    chosen = {}
    for fold in set(folds):
        others = ([at for at in stratum if folds[at] != fold] for stratum in strata)
        chosen[fold] = choose_weights(gains, strata=[each for each in others if each])
    return [gains[chosen[fold]][at] for at, fold in enumerate(folds)]


def deal_folds(docids: AbstractSet[str], *, num_folds: int, seed: int) -> dict[str, int]:
    """Deal documents into folds of even size, by chance; queries of one document stay together.

    >>> sorted(deal_folds({"a", "b", "c", "d"}, num_folds=2, seed=0).values())
    [0, 0, 1, 1]
    """
    shuffled = sorted(docids)
    random.Random(seed).shuffle(shuffled)
    return {docid: at % num_folds for at, docid in enumerate(shuffled)}


def stratify(overlaps: Sequence[float], *, config: CalibrationConfig) -> dict[str, list[int]]:
    """Part queries by overlap, or leave them together where either part would be too small.

    >>> stratify([0.9, 0.2, 0.5], config=CalibrationConfig(min_stratum=1))
    {'low overlap': [1], 'high overlap': [0, 2]}
    >>> stratify([0.9, 0.2, 0.5], config=CalibrationConfig(min_stratum=2))
    {'all': [0, 1, 2]}
    """
    low = [at for at, overlap in enumerate(overlaps) if overlap < config.overlap_split]
    high = [at for at, overlap in enumerate(overlaps) if not overlap < config.overlap_split]
    if min(len(low), len(high)) < config.min_stratum:
        return {"all": list(range(len(overlaps)))}
    return {"low overlap": low, "high overlap": high}


def _report(name: str, stratum: Sequence[int], columns: Mapping[str, Sequence[float]]) -> Stratum:
    scores = {each: stratified_mean(values, [stratum]) for each, values in columns.items()}
    return Stratum(name, len(stratum), scores)


# --- statistics over strata ----------------------------------------------------------------------


def stratified_mean(values: Sequence[float], strata: Strata) -> float:
    """Average each stratum, then the strata.

    >>> stratified_mean([1.0, 0.0, 0.0, 0.5], [[0], [1, 2, 3]]) == (1 + 0.5 / 3) / 2
    True
    """
    return fmean(fmean(values[at] for at in stratum) for stratum in strata)


def standard_error(values: Sequence[float], strata: Strata) -> float:
    """Estimate the deviation of the stratified mean; a stratum of one query adds nothing.

    >>> standard_error([1.0, 3.0], [[0, 1]]) == (2 / 2) ** 0.5  # the variance over n
    True
    """
    drawn = ([values[at] for at in stratum] for stratum in strata)
    errors = (variance(each) / len(each) for each in drawn if len(each) > 1)
    return math.sqrt(math.fsum(errors)) / len(strata)


def lower_bound(
    values: Sequence[float], strata: Strata, *, confidence: float, num_resamples: int, seed: int
) -> float:
    """Bootstrap what the stratified mean is at the least, one-sided, resampling inside strata.

    >>> lower_bound([0.25] * 4, [[0, 1], [2, 3]], confidence=0.95, num_resamples=9, seed=0)
    0.25
    """
    generator = random.Random(seed)
    drawn = [[values[at] for at in stratum] for stratum in strata]
    means = sorted(
        fmean(fmean(generator.choices(each, k=len(each))) for each in drawn)
        for _ in range(num_resamples)
    )
    return means[int((1.0 - confidence) * num_resamples)]


# --- without evidence ----------------------------------------------------------------------------


def _mix_evenly(names: Sequence[str], num_queries: int, config: CalibrationConfig) -> Calibration:
    reason = f"{num_queries} known-item queries are too few to tell: an even mix"
    even = {name: 1.0 / len(names) for name in names}
    return Calibration(even, num_queries, {}, (), False, reason, config)


def _check_names(runs: Sequence[Run]) -> tuple[str, ...]:
    names = tuple(run.name for run in runs)
    if not names or len(set(names)) < len(names) or FUSED in names:
        raise ConfigError(
            f"cannot calibrate runs named {', '.join(names) or 'nothing'}: expected at least one,"
            f" with names of their own other than {FUSED!r}"
        )
    return names
