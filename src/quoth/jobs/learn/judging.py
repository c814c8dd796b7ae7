"""Judge two encoders of one collection by queries that nothing was trained on.

Three kinds of queries, each with the document it should find: *known items* (stretches of held-out
documents, searched as if they were not in them), *pseudo-queries* (written for held-out documents)
and, where pairs were given, *labelled pairs* that were kept back. Every searcher answers all of
them before and after; the scores are RR@10 per query, so that differences can be paired.

A model is installed only if what people see gets better beyond chance: the fused search, or that
search once its hits are reranked, where they are (see `decide`). Reading takes long, so only some
queries are reranked. The weights of fusion are found for each encoder by the same trial queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from quoth.collection.store import Store
from quoth.engine.calibrating import search_held_out
from quoth.engine.reranking import find_reranker
from quoth.engine.searchers import Searchers
from quoth.jobs.learn.queries import Unit, spread
from quoth.jobs.learn.reranked import FIRST, RERANKED, open_judge
from quoth.records import Document, Query, Run
from quoth.search.hybrid.calibration import Calibration, lower_bound
from quoth.search.hybrid.fusion import fuse
from quoth.search.hybrid.fusion_config import CalibrationConfig
from quoth.search.searcher import Progress, ScoringSearcher
from quoth.selfsupervision.known_items import KnownItem, make_known_items
from quoth.settings.config import Config
from quoth.text.words import Analyser

KNOWN, PSEUDO, LABELLED = "known items", "pseudo-queries", "labelled pairs"
SEARCHERS = ("lexical", "dense", "hybrid")
MEASURE = "RR@10"
_CUT = 10  # of what is judged; more is fused, for whoever reads
_CONFIDENCE, _RESAMPLES = 0.9, 1000

_Asked = TypeVar("_Asked")

Scores = Mapping[str, Mapping[str, Sequence[float]]]
"""Kind of queries → searcher → RR@10 of each query."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query and the documents that answer it."""

    query: Query
    docids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Judged:
    """The queries to judge by."""

    items: tuple[KnownItem, ...]
    pseudo: tuple[Asked, ...]
    labelled: tuple[Asked, ...] = ()

    @property
    def texts(self) -> list[str]:
        """All queries, which must not be trained on."""
        asked = (each.query.text for each in (*self.pseudo, *self.labelled))
        return [*(item.query.text for item in self.items), *asked]

    def some_pseudo(self, count: int) -> list[tuple[Query, str]]:
        """Take so many pseudo-queries, spread evenly, each with its document."""
        chosen = take_some(self.pseudo, count)
        return [(each.query, docid) for each in chosen for docid in each.docids]


def take_some(asked: Sequence[_Asked], count: int) -> list[_Asked]:
    """Take so many, spread evenly.

    >>> take_some("owls", 2), take_some("", 2)
    (['o', 's'], [])
    """
    return [asked[at] for at in spread(len(asked), count)] if asked else []


def make_judged(
    store: Store,
    units: Sequence[Unit],
    written: Mapping[int, Sequence[str]],
    labelled: Sequence[Asked],
    config: Config,
) -> Judged:
    """Make the queries to judge by, from held-out documents alone."""
    held = {unit.docid for unit in units if unit.is_held_out}
    seed, most = config.learn.seed, config.learn.judged_queries
    items = make_known_items(
        (each.document for each in store.live_documents() if each.document.docid in held),
        analyser=Analyser(config.analyser),
        count=most,
        seed=seed + 1,  # not the trial queries that fusion is calibrated with
    )
    pseudo = [
        Asked(Query(f"pseudo:{row}", own[0]), frozenset([units[row].docid]))
        for row, own in sorted(written.items())
        if units[row].is_held_out and own
    ]
    chosen = spread(len(pseudo), most) if pseudo else []
    return Judged(items, tuple(pseudo[at] for at in chosen), tuple(labelled[:most]))


def judge(
    searchers: Searchers,
    store: Store,
    judged: Judged,
    calibration: Calibration,
    config: Config,
    *,
    progress: Progress,
    num_read: int = 0,
) -> dict[str, dict[str, list[float]]]:
    """Search for everything with all searchers; RR@10 of each query, by kind and searcher.

    So many known items and pseudo-queries are judged by the order that reranking leaves as well.
    """
    reader, reranked = find_reranker(config.rerank) if num_read else None, None
    if reader is not None:
        reranked = open_judge(searchers, config, reader, calibration=calibration, progress=progress)
    sides: list[ScoringSearcher] = [searchers.lexical(syntax=False), searchers.dense_side()]
    depth = config.fusion.depth
    runs_by_kind: dict[str, tuple[list[Run], list[Asked]]] = {}
    if judged.items:
        found = [
            search_held_out(store, side, judged.items, depth=depth, progress=progress)
            for side in sides
        ]
        targets = [Asked(item.query, frozenset([item.docid])) for item in judged.items]
        runs_by_kind[KNOWN] = found, targets
    for kind, asked in ((PSEUDO, judged.pseudo), (LABELLED, judged.labelled)):
        if asked:
            queries = [each.query for each in asked]
            found = [side.search(queries, k=depth, allowed=None) for side in sides]
            runs_by_kind[kind] = found, list(asked)
    scores = {}
    for kind, (runs, targets) in runs_by_kind.items():
        fused = _fuse(runs, calibration, config)
        scores[kind] = {run.name: reciprocal_ranks(run, targets) for run in (*runs, fused)}
        if reranked is not None and kind == KNOWN:
            read = take_some(judged.items, num_read)
            scores[kind][RERANKED] = reranked.items(store, read, fused)
        if reranked is not None and kind == PSEUDO:
            scores[kind][RERANKED] = reranked.pseudo(judged.some_pseudo(num_read), fused)
    return scores


def _fuse(runs: Sequence[Run], calibration: Calibration, config: Config) -> Run:
    """Fuse as hybrid search would with this calibration."""
    weights = config.fusion.weights("lexical", ["dense"])
    if config.fusion.method == "calibrated":
        weights = dict(calibration.weights)
    heard = [
        run
        if weights.get(run.name) or config.fusion.method == "rrf"
        else Run(run.name, dict.fromkeys(run.hits, ()))
        for run in runs
    ]
    ranges = calibration.usual_ranges()
    fused = fuse(heard, config.fusion, weights=weights, ranges=ranges, k=FIRST)
    return Run("hybrid", fused.hits)


def reciprocal_ranks(run: Run, asked: Sequence[Asked]) -> list[float]:
    """Return one over the rank of the first answer among the ten best, 0 where there is none."""
    found = []
    for each in asked:
        ranked = enumerate(run.hits[each.query.qid][:_CUT], 1)
        found.append(next((1.0 / rank for rank, hit in ranked if hit.docid in each.docids), 0.0))
    return found


def decide(before: Scores, after: Scores, *, margin: float) -> tuple[bool, str]:
    """Say whether the new model is installed, and why, stating the rule.

    Each kind of queries counts the same, however many there are of it. Where all kinds were
    reranked, that counts.

    >>> old = {"known items": {"dense": [0.5, 0.5], "hybrid": [0.5, 0.5]}}
    >>> new = {"known items": {"dense": [0.5, 1.0], "hybrid": [1.0, 1.0]}}
    >>> decide(old, new, margin=0.005)[0], decide(new, old, margin=0.005)[0]
    (True, False)
    """
    is_read = bool(after) and all(RERANKED in own for own in after.values())
    seen = RERANKED if is_read else "hybrid"
    rule = (
        "the rule: over the held-out queries, each kind counting the same, the"
        f" {MEASURE} of {seen} search, which is what people see, must rise by more than"
        f" {margin:g}, beyond chance ({_CONFIDENCE:.0%})"
    )
    if not after:
        return False, f"no queries to judge by could be made; {rule}"
    rise = {
        name: fmean(fmean(after[kind][name]) - fmean(before[kind][name]) for kind in after)
        for name in dict.fromkeys((seen, "hybrid", "dense"))
    }
    least = least_rise(before, after, seen)
    others = "".join(f", {name} {own:+.4f}" for name, own in rise.items() if name != seen)
    found = f"{seen} {rise[seen]:+.4f} (at least {least:+.4f}){others}"
    if rise[seen] > margin and least > 0.0:
        return True, f"installed: {found}; {rule}"
    return False, f"kept aside, search is as it was: {found}; {rule}"


def least_rise(before: Scores, after: Scores, searcher: str) -> float:
    """Return what a searcher's rise is at the least, kinds resampled apart and counted alike."""
    differences: list[float] = []
    strata = []
    for kind, scores in after.items():
        pairs = zip(before[kind][searcher], scores[searcher], strict=True)
        own = [new - old for old, new in pairs]
        strata.append(range(len(differences), len(differences) + len(own)))
        differences += own
    return lower_bound(
        differences, strata, confidence=_CONFIDENCE, num_resamples=_RESAMPLES, seed=0
    )


def split_by_overlap(overlaps: Sequence[float]) -> dict[str, list[int]]:
    """Part known items by how much of them the rest of their document repeats.

    >>> split_by_overlap([0.9, 0.1])
    {'known items, low overlap': [1], 'known items, high overlap': [0]}
    """
    split = CalibrationConfig().overlap_split
    parts: dict[str, list[int]] = {"low overlap": [], "high overlap": []}
    for at, overlap in enumerate(overlaps):
        parts["low overlap" if overlap < split else "high overlap"].append(at)
    return {f"{KNOWN}, {name}": own for name, own in parts.items() if own}


def check_leak(
    judged: Judged,
    scores: Scores,
    store: Store,
    trained: Sequence[str],
    *,
    analyser: Analyser,
) -> dict[str, float]:
    """Measure how far words alone give the judged queries away, and that none was trained on."""
    known = {tuple(analyser.terms(text)) for text in trained}
    found = {
        "judged queries that were trained on": float(
            sum(tuple(analyser.terms(text)) in known for text in judged.texts)
        )
    }
    if judged.items:
        found["mean overlap of known items with the rest of their document"] = fmean(
            item.overlap for item in judged.items
        )
        overlaps = [item.overlap for item in judged.items]
        for kind, places in split_by_overlap(overlaps).items():
            lexical = scores[KNOWN]["lexical"]
            found[f"lexical {MEASURE}, {kind}"] = fmean(lexical[at] for at in places)
    if judged.pseudo:
        found["mean overlap of pseudo-queries with their document"] = fmean(
            _overlap(each, store, analyser) for each in judged.pseudo
        )
    return found


def _overlap(asked: Asked, store: Store, analyser: Analyser) -> float:
    terms = set(analyser.terms(asked.query.text))
    (docid,) = asked.docids
    document = store.get(docid) or Document(docid, {})
    held = {
        term
        for texts in document.fields.values()
        for text in texts
        for term in analyser.terms(text)
    }
    return len(terms & held) / len(terms) if terms else 0.0
