"""Join several runs into one.

Reciprocal rank fusion follows Cormack et al. 2009. The convex sum (Bruch et al. 2023) weighs scores
instead of ranks; each run is normalised per query first, since scores of different searchers are
not comparable. Pure: runs in, run out.

What a run says of a query is the hits it holds, no more: normalising depends on how many there are,
so every run should come cut to the same `depth`, the one that weights were calibrated with. A
document that is not among those hits is absent. What a hit gets, and what an absent document:

    range     (score - floor) / usual range of the searcher             absent: the last hit's, ≤ 0
    min_max   (score - min) / (max - min), 1 if all scores are equal    absent: 0
    z_score   (score - mean) / deviation,  0 if all scores are equal    absent: the last hit's
    none      score                                                     absent: the last hit's

where deviation is the population's (divided by n); a run without hits adds 0 to every document.

In `range` the floor is the score at the depth of the calibration, so that scores do not depend on
how many hits are asked for. It divides by one number per searcher, learnt from the collection
(`UsualRanges`): a query on which a searcher hardly tells documents apart then counts for little,
where min_max would blow its noise up. Until that number is known, it does as min_max does.

A searcher that does not hold a document yet, because its vectors are still being made, says nothing
of it, good or bad: there the document gets what the other searchers give it on average, by weight
(`estimate_unknown`). Counted as absent, it would sink below every document that is encoded. And the
fewer documents a searcher holds, the less it weighs (`temper`): the best of a few that happen to be
encoded may be far from the best of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import fmean

from quoth.errors import ConfigError
from quoth.records import Hit, Passage, Run
from quoth.search.hybrid.fusion_config import FusionConfig

FUSED = "fused"
Unknown = Mapping[str, AbstractSet[str]]
"""Documents that a run cannot hold, as its searcher does not have them yet, by the run's name."""

NOBODY: Unknown = {}
_SLACK = 1e-6  # by how much the sum of weights may differ from 1


@dataclass(frozen=True, slots=True)
class UsualRanges:
    """How far the scores of each searcher usually reach, over runs cut to `depth` hits."""

    depth: int
    widths: Mapping[str, float]


def fuse(
    runs: Sequence[Run],
    config: FusionConfig,
    *,
    weights: Mapping[str, float],
    k: int,
    ranges: UsualRanges | None = None,
    unknown: Unknown = NOBODY,
) -> Run:
    """Fuse as configured; `weights` by run name count unless the method goes by ranks alone.

    `unknown` names, by run, the documents that its searcher does not hold yet.
    """
    if config.method == "rrf":
        return reciprocal_rank(runs, constant=config.constant, k=k, unknown=unknown)
    return convex(
        runs, weights=weights, normalise=config.normalise, ranges=ranges, k=k, unknown=unknown
    )


def reciprocal_rank(
    runs: Sequence[Run],
    *,
    constant: int = 60,
    k: int | None = None,
    name: str = FUSED,
    unknown: Unknown = NOBODY,
) -> Run:
    """Score each document by the sum of 1 / (constant + rank) over the runs that found it.

    Like every fused run: the k best (None: all), best first, ties by docid; a hit's passage is that
    of the run that adds most to its score.

    >>> first = Run("a", {"q": (Hit("x", 3.0), Hit("y", 1.0))})
    >>> second = Run("b", {"q": (Hit("y", 0.9),)})
    >>> [hit.docid for hit in reciprocal_rank([first, second]).hits["q"]]
    ['y', 'x']
    >>> reciprocal_rank([first, second]).hits["q"][0].score == 1 / (60 + 2) + 1 / (60 + 1)
    True
    """

    def listen(run: Run, qid: str) -> _Voice:
        hits = run.hits.get(qid, ())
        shares = [1.0 / (constant + rank) for rank in range(1, len(hits) + 1)]
        return _Voice(hits, shares, 0.0, 1.0, unknown.get(run.name, frozenset()))

    return _join(runs, listen, k=k, name=name)


def convex(
    runs: Sequence[Run],
    *,
    weights: Mapping[str, float],
    normalise: str,
    ranges: UsualRanges | None = None,
    k: int | None = None,
    name: str = FUSED,
    unknown: Unknown = NOBODY,
) -> Run:
    """Score each document by the sum of weight · normalised score over the runs.

    `weights` holds one share per run name, adding up to 1. A run of weight 0 is left out: what it
    alone found is not found, so that weights 1 and 0 give the first run back.

    >>> lexical = Run("lexical", {"q": (Hit("x", 9.0), Hit("y", 6.0), Hit("z", 1.0))})
    >>> dense = Run("dense", {"q": (Hit("z", 0.8), Hit("x", 0.4))})
    >>> run = convex([lexical, dense], weights={"lexical": 0.5, "dense": 0.5}, normalise="min_max")
    >>> [(hit.docid, hit.score) for hit in run.hits["q"]]  # y: 0.5 · (6 - 1) / (9 - 1)
    [('x', 0.5), ('z', 0.5), ('y', 0.3125)]
    """
    find_scale = find_normalisation(normalise, ranges)
    check_weights(weights, [run.name for run in runs])

    def listen(run: Run, qid: str) -> _Voice:
        weight = weights[run.name]
        hits = run.hits.get(qid, ()) if weight else ()
        scale = find_scale(run.name, [hit.score for hit in hits])
        shares = [weight * scale.apply(hit.score) for hit in hits]
        lacks = unknown.get(run.name, frozenset())
        return _Voice(hits, shares, weight * scale.absent, weight, lacks)

    return _join(runs, listen, k=k, name=name)


def temper(weights: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """Weigh runs by the share of all documents that their searchers hold; the others gain.

    >>> temper({"lexical": 0.5, "dense": 0.5}, {"dense": 0.5})
    {'lexical': 0.75, 'dense': 0.25}
    >>> temper({"lexical": 0.0, "dense": 1.0}, {"dense": 0.5})  # there is nobody to gain
    {'lexical': 0.0, 'dense': 1.0}
    """
    kept = {name: weight * shares.get(name, 1.0) for name, weight in weights.items()}
    lost = math.fsum(weights.values()) - math.fsum(kept.values())
    whole = math.fsum(weight for name, weight in weights.items() if name not in shares)
    if not lost or not whole:
        return dict(weights)
    return {
        name: kept[name] if name in shares else weight + lost * weight / whole
        for name, weight in weights.items()
    }


# --- scales: what makes scores comparable --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers that make one run's scores of one query comparable with another run's.

    A hit gets (score - offset) / width, or `flat` where the width is 0; any other document
    `absent`.
    """

    offset: float
    width: float
    flat: float
    absent: float

    def apply(self, score: float | None) -> float:
        """Scale the score of a hit, or of a document that the run did not find (None)."""
        if score is None:
            return self.absent
        return (score - self.offset) / self.width if self.width else self.flat


def min_max(scores: Sequence[float]) -> Scale:
    """Let scores reach from 0 to 1.

    >>> scale = min_max([9.0, 6.0, 1.0])
    >>> [scale.apply(score) for score in (9.0, 6.0, 1.0, None)]
    [1.0, 0.625, 0.0, 0.0]
    >>> min_max([4.0]).apply(4.0)
    1.0
    """
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return Scale(offset=low, width=high - low, flat=1.0, absent=0.0)


def z_score(scores: Sequence[float]) -> Scale:
    """Let scores have mean 0 and deviation 1.

    >>> scale = z_score([5.0, 3.0, 3.0, 1.0, 3.0])  # deviation sqrt(8 / 5)
    >>> [round(scale.apply(score) * 1.6**0.5, 9) for score in (5.0, 3.0, 1.0, None)]
    [2.0, 0.0, -2.0, -2.0]
    """
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if low == high:  # exactly 0, which a computed deviation need not be
        return Scale(offset=low, width=0.0, flat=0.0, absent=0.0)
    mean = fmean(scores)
    deviation = math.sqrt(fmean((score - mean) ** 2 for score in scores))
    return Scale(mean, deviation, flat=0.0, absent=(low - mean) / deviation if deviation else 0.0)


def unscaled(scores: Sequence[float]) -> Scale:
    """Leave scores as they are.

    >>> [unscaled([9.0, 6.0]).apply(score) for score in (9.0, None)]
    [9.0, 6.0]
    """
    return Scale(offset=0.0, width=1.0, flat=0.0, absent=min(scores, default=0.0))


def usual_range(scores: Sequence[float], *, width: float, depth: int) -> Scale:
    """Let the usual range of a searcher be 1, and the score at the usual depth be 0.

    Counted from that depth, scores mean the same however many hits were asked for; deeper ones are
    below 0. A run shorter than that is complete: what it does not hold matched nothing, and scores
    0.

    >>> [usual_range([9.0, 6.0], width=4.0, depth=2).apply(score) for score in (9.0, 6.0, None)]
    [0.75, 0.0, 0.0]
    >>> [usual_range([9.0, 6.0, 4.0], width=4.0, depth=2).apply(score) for score in (9.0, None)]
    [0.75, -0.5]
    >>> usual_range([9.0], width=4.0, depth=2).apply(9.0)
    2.25
    """
    ranked = sorted(scores, reverse=True)
    least = ranked[-1] if ranked else 0.0
    offset = ranked[depth - 1] if len(ranked) >= max(1, depth) else min(least, 0.0)
    return Scale(offset, width, flat=0.0, absent=min(0.0, (least - offset) / width))


def measure_ranges(runs: Sequence[Run], *, depth: int) -> UsualRanges:
    """Find how far the scores of each run reach on average; runs with flat scores are left out.

    >>> run = Run("lexical", {"p": (Hit("x", 9.0), Hit("y", 6.0)), "q": (Hit("x", 1.0),), "r": ()})
    >>> measure_ranges([run], depth=2).widths  # (9 - 6), and 1 since nothing else matches
    {'lexical': 2.0}
    """
    widths = {}
    for run in runs:
        found = ([hit.score for hit in hits] for hits in run.hits.values() if hits)
        reaches = [
            max(scores) - usual_range(scores, width=1.0, depth=depth).offset for scores in found
        ]
        if reaches and (width := fmean(reaches)) > 0.0:
            widths[run.name] = width
    return UsualRanges(depth, widths)


SCALES: Mapping[str, Callable[[Sequence[float]], Scale]] = {
    "min_max": min_max,
    "z_score": z_score,
    "none": unscaled,
}


# --- joining -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Voice:
    """What one run adds, for one query, to each of its hits and to any other document."""

    hits: Sequence[Hit]
    shares: Sequence[float]
    absent: float
    weight: float
    unknown: AbstractSet[str]


def _join(
    runs: Sequence[Run], listen: Callable[[Run, str], _Voice], *, k: int | None, name: str
) -> Run:
    qids = dict.fromkeys(qid for run in runs for qid in run.hits)
    return Run(name, {qid: _add_up([listen(run, qid) for run in runs], k) for qid in qids})


def _add_up(voices: Sequence[_Voice], k: int | None) -> tuple[Hit, ...]:
    """Sum the shares of each document, exactly rounded: the order of runs does not matter."""
    absent = [voice.absent for voice in voices]
    shares: dict[str, list[float]] = {}
    for at, voice in enumerate(voices):
        for hit, share in zip(voice.hits, voice.shares, strict=True):
            if hit.docid not in shares:
                shares[hit.docid] = absent.copy()
            shares[hit.docid][at] = share
    _estimate(voices, shares)
    scores = {docid: math.fsum(each) for docid, each in shares.items()}
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
    passages = _choose_passages(voices, {docid for docid, _ in best})
    return tuple(Hit(docid, score, passages.get(docid)) for docid, score in best)


def _estimate(voices: Sequence[_Voice], shares: dict[str, list[float]]) -> None:
    """Replace what searchers say of documents they do not hold by what the others say."""
    weights = [voice.weight for voice in voices]
    for docid in frozenset().union(*(voice.unknown for voice in voices)) & shares.keys():
        known = [
            None if docid in voice.unknown else share
            for voice, share in zip(voices, shares[docid], strict=True)
        ]
        shares[docid] = estimate_unknown(known, weights)


def estimate_unknown(shares: Sequence[float | None], weights: Sequence[float]) -> list[float]:
    """Give runs that do not know a document (None) what the others give it, by weight.

    >>> estimate_unknown([0.25, None], [0.5, 0.5])  # as if it were as near as its words say
    [0.25, 0.25]
    >>> estimate_unknown([0.375, None], [0.75, 0.25])  # a third of the weight, a third of the share
    [0.375, 0.125]
    """
    known = [at for at, share in enumerate(shares) if share is not None]
    total = math.fsum(weights[at] for at in known)
    mean = math.fsum(shares[at] or 0.0 for at in known) / total if total else 0.0
    return [
        weight * mean if share is None else share
        for share, weight in zip(shares, weights, strict=True)
    ]


def _choose_passages(voices: Sequence[_Voice], docids: set[str]) -> dict[str, Passage]:
    """Take each document's passage from the run that adds most; the first run wins ties."""
    chosen: dict[str, tuple[float, Passage]] = {}
    for voice in voices:
        for hit, share in zip(voice.hits, voice.shares, strict=True):
            if hit.passage is None or hit.docid not in docids:
                continue
            if hit.docid not in chosen or share > chosen[hit.docid][0]:
                chosen[hit.docid] = (share, hit.passage)
    return {docid: passage for docid, (_, passage) in chosen.items()}


def find_normalisation(
    normalise: str, ranges: UsualRanges | None
) -> Callable[[str, Sequence[float]], Scale]:
    """Return what finds the scale of a run, by its name and its scores of one query."""
    if normalise == "range":
        widths = ranges.widths if ranges else {}
        depth = ranges.depth if ranges else 0
        return lambda run, scores: (
            usual_range(scores, width=widths[run], depth=depth)
            if run in widths
            else min_max(scores)
        )
    if normalise not in SCALES:
        expected = ", ".join(("range", *SCALES))
        raise ConfigError(f"normalise is {normalise!r}, expected one of {expected}")
    return lambda _, scores: SCALES[normalise](scores)


def check_weights(weights: Mapping[str, float], names: Sequence[str]) -> None:
    """Refuse weights that are not one per run, of 0 or more, adding up to 1."""
    problems = [f"{name} is {weight}" for name, weight in weights.items() if not weight >= 0.0]
    if len(set(names)) < len(names):
        problems.append(f"two runs have one name: {', '.join(names)}")
    if set(weights) != set(names):
        found = ", ".join(weights) or "none"
        problems.append(f"there are weights for {found}, but runs {', '.join(names) or 'none'}")
    if weights and not abs(math.fsum(weights.values()) - 1.0) <= _SLACK:
        problems.append(f"they add up to {math.fsum(weights.values()):g}")
    if problems:
        expected = "expected one weight of 0 or more per run, adding up to 1"
        raise ConfigError(f"weights of fusion: {'; '.join(problems)}; {expected}")
