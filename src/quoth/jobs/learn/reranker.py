"""Fit the reranker to a collection: the stage of `quoth learn` that shows in what people see.

Pseudo-queries whose document the fused search finds among its first 20 are examples: that document
against others found. Held-out documents give two kinds of queries to judge by, pseudo-queries and
known items; both readers put the same hits into order, and the new one is used only where it does
so better, beyond chance.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from quoth.collection.store import Store
from quoth.engine.calibrating import LEAST_RERANKED, RerankingTrial, read_items, search_held_out
from quoth.engine.reranking import READERS, find_reranker, share_of, usual_width
from quoth.engine.searchers import Searchers
from quoth.jobs.learn.judging import RERANKED, Judged, least_rise
from quoth.jobs.learn.plan import FITTING_SIZES, FittingSizes
from quoth.jobs.learn.queries import Unit, spread
from quoth.models.reader.inputs import TitledText
from quoth.records import Hit, Query, Run
from quoth.search.hybrid.calibration import Calibration
from quoth.search.hybrid.fusion import fuse
from quoth.search.hybrid.fusion_config import CalibrationConfig
from quoth.search.rerank_config import RerankConfig
from quoth.search.rerank_share import RerankTrial, worth_of
from quoth.search.searcher import Progress
from quoth.selfsupervision.known_items import KnownItem
from quoth.settings.config import Config
from quoth.settings.stored import MODELS
from quoth.training.recipes.fitted_reader import FitExample, FitRecipe, OpenReader, fit_reader

READER = "reader"
_FIRST, _SECOND = 20, 50
_PSEUDO, _KNOWN = "pseudo-queries", "known items"


@dataclass(frozen=True, slots=True)
class RerankerWork:
    """What fitting works with: searchers of the encoder in use, and the queries of a learning."""

    searchers: Searchers
    store: Store
    config: Config
    units: Sequence[Unit]
    written: Mapping[int, Sequence[str]]
    judged: Judged
    progress: Progress


def with_shipped_reader(config: Config, folder: Path) -> Config:
    """Start from what was there before any learning, not from what an earlier one fitted."""
    is_fitted = Path(config.rerank.reader).parent == folder / MODELS
    reader = RerankConfig().reader if is_fitted else config.rerank.reader
    return replace(config, rerank=replace(config.rerank, reader=reader))


def why_not(config: Config, *, num_documents: int) -> str:
    """Say why no reranker is fitted; empty where one is."""
    if not config.learn.reranker:
        return "it is not asked for (learn.reranker)"
    if config.rerank.by not in READERS or find_reranker(config.rerank) is None:
        return "no cross-encoder reranks here"
    if num_documents < LEAST_RERANKED:
        return f"{num_documents} documents are too few, expected {LEAST_RERANKED}"
    return ""


def fit_reranker(
    work: RerankerWork, folder: Path, *, steps: int, device: torch.device
) -> dict[str, Any]:
    """Fit a copy of the reranker and judge it; it is left in the folder if it is better."""
    config, sizes = work.config, FITTING_SIZES[device.type]
    start = find_reranker(config.rerank)
    assert start is not None
    recipe = FitRecipe(
        steps=steps,
        max_subwords=min(sizes.subwords, config.rerank.max_subwords),
        seed=config.learn.seed,
    )
    examples = make_examples(work, sizes, count=steps * recipe.batch_size)
    if len(examples) < recipe.batch_size:
        return {"fitted": False, "reason": f"{len(examples)} pseudo-queries are too few"}
    reader = OpenReader(start)
    fit_reader(
        reader,
        examples,
        recipe,
        device=device,
        progress=lambda told: work.progress("fitting the reranker", told.step, steps),
    )
    reader.save(folder, share=recipe.share, seed=recipe.seed)
    scores = judge_readers(work, {"before": start, "after": folder}, count=sizes.judged)
    fitted, reason = decide_reader(scores["before"], scores["after"])
    return {
        "fitted": fitted,
        "reason": reason,
        "examples": len(examples),
        "scores": scores,
    }


def make_examples(work: RerankerWork, sizes: FittingSizes, *, count: int) -> list[FitExample]:
    """Search for pseudo-queries; those whose document is near become examples."""
    known = set(work.judged.texts)
    asked = [
        (Query(f"{row}:{at}", text), work.units[row].docid)
        for row, own in sorted(work.written.items())
        for at, text in enumerate(own)
        if not work.units[row].is_held_out and text not in known
    ]
    chance = random.Random(work.config.learn.seed)
    chance.shuffle(asked)
    found = _search(work, [query for query, _docid in asked[: 2 * count]])
    examples: list[FitExample] = []
    for query, docid in asked[: 2 * count]:
        if len(examples) == count:
            break
        work.progress("reading what pseudo-queries find", len(examples), count)
        hits = found.hits[query.qid]
        own = [hit for hit in hits[:_FIRST] if hit.docid == docid]
        others = [hit for hit in hits[:_FIRST] if hit.docid != docid]
        chosen = [
            *own,
            *chance.sample(others, min(sizes.near, len(others))),
            *chance.sample(hits[_FIRST:], min(sizes.far, len(hits[_FIRST:]))),
        ]
        if own and len(chosen) > 1:
            examples.append(FitExample(query.text, tuple(_read(work, query, chosen))))
    return examples


def judge_readers(
    work: RerankerWork, folders: Mapping[str, Path], *, count: int
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Let readers put the hits of held-out queries into order: what each rank is worth, by kind."""
    config = work.config
    found = {}
    for when, folder in folders.items():
        rerank = replace(config.rerank, reader=str(folder))
        searchers = work.searchers
        reranking = RerankingTrial(
            rerank,
            when,
            width=usual_width(config),
            load=functools.partial(searchers.load_reranker, rerank),
            read=functools.partial(searchers.passages.read_hits, "hybrid", syntax=False),
            read_document=searchers.passages.read_document,
        )
        trials = {
            _PSEUDO: _try_pseudo(work, reranking, count),
            _KNOWN: _try_items(work, reranking, count),
        }
        share = share_of(config.rerank, searchers.calibration)
        judging = CalibrationConfig(normalise=config.fusion.normalise, depth=config.fusion.depth)
        found[when] = {
            kind: {RERANKED: [worth_of(each, share, reranking.width, judging) for each in own]}
            for kind, own in trials.items()
            if own
        }
    return found


def decide_reader(
    before: Mapping[str, Mapping[str, Sequence[float]]],
    after: Mapping[str, Mapping[str, Sequence[float]]],
) -> tuple[bool, str]:
    """Say whether a fitted reader is used, and why.

    >>> old, new = ({"known items": {"reranked": [each] * 3}} for each in (0.5, 0.75))
    >>> decide_reader(old, new)[0], decide_reader(new, old)[0]
    (True, False)
    """
    if not after:
        return False, "no held-out query finds its document"
    rise = fmean(
        fmean(own[RERANKED]) - fmean(before[kind][RERANKED]) for kind, own in after.items()
    )
    least = least_rise(before, after, RERANKED)
    found = f"reranked search {rise:+.4f} (at least {least:+.4f}) on held-out queries"
    if least > 0.0:
        return True, f"the fitted reranker is used: {found}"
    return False, f"the reranker stays as it was: {found}, which may be chance"


def _try_pseudo(work: RerankerWork, reranking: RerankingTrial, count: int) -> list[RerankTrial]:
    asked = work.judged.pseudo
    some = [asked[at] for at in spread(len(asked), count)] if asked else []
    found = _search(work, [each.query for each in some])
    score = reranking.load()
    trials: list[RerankTrial] = []
    for each in some:
        work.progress("judging the reranker", len(trials), len(some))
        hits = found.hits[each.query.qid][:_FIRST]
        (target,) = each.docids
        if target in {hit.docid for hit in hits}:
            passages = reranking.read(each.query, hits)
            read = score([each.query.text] * len(hits), passages)
            trials.append(RerankTrial(target, 1.0, hits, read))
    return trials


def _try_items(work: RerankerWork, reranking: RerankingTrial, count: int) -> list[RerankTrial]:
    items = work.judged.items
    some = [items[at] for at in spread(len(items), count)] if items else []
    found = _search_items(work, some)
    return read_items(reranking, work.store, some, found.hits, progress=work.progress)


def _search_items(work: RerankerWork, items: Sequence[KnownItem]) -> Run:
    """Fuse what both sides find for items as if their stretches were not in the documents."""
    fusion, calibration = work.config.fusion, work.searchers.calibration
    sides = (work.searchers.lexical(syntax=False), work.searchers.dense_side())
    runs = [
        search_held_out(work.store, side, items, depth=fusion.depth, progress=work.progress)
        for side in sides
    ]
    weights = fusion.weights("lexical", ["dense"])
    if fusion.method == "calibrated" and calibration is not None:
        weights = dict(calibration.weights)
    ranges = calibration.usual_ranges() if isinstance(calibration, Calibration) else None
    return fuse(runs, fusion, weights=weights, ranges=ranges, k=_FIRST)


def _search(work: RerankerWork, queries: Sequence[Query]) -> Run:
    return work.searchers.get("hybrid", syntax=False).search(queries, k=_SECOND, allowed=None)


def _read(work: RerankerWork, query: Query, hits: Sequence[Hit]) -> Iterable[TitledText]:
    for each in work.searchers.passages.read_hits("hybrid", query, hits, syntax=False):
        yield TitledText(each.title, each.text)
