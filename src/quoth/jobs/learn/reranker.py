"""Fit the reranker to a collection: the stage of `quoth learn` that shows in what people see.

Pseudo-queries whose document the fused search finds among its first 20 are examples: that document
against others found. A reranker that is sure of the passages that pseudo-queries were written for
knows such questions from its own training, and is left as it is: fine-tuning gave it little there
or did harm (`benchmarks.learn.familiar`). Held-out documents give two kinds of queries to judge by,
pseudo-queries and known items; both readers put the same hits into order, and the new one is used
only where it does so better, beyond chance. Whatever becomes of it, search looks at its best hits a
second time from then on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from quoth.collection.store import Store
from quoth.engine.calibrating import LEAST_RERANKED, search_held_out
from quoth.engine.reranking import READERS, find_reranker
from quoth.engine.searchers import Searchers
from quoth.jobs.learn.fitting_sizes import FITTING_SIZES, FittingSizes
from quoth.jobs.learn.judging import KNOWN, PSEUDO, Judged, least_rise, take_some
from quoth.jobs.learn.queries import Unit, spread
from quoth.jobs.learn.reranked import FIRST, RERANKED, open_judge
from quoth.models.reader.inputs import TitledText
from quoth.records import Hit, Query, Run
from quoth.search.hybrid.calibration import Calibration
from quoth.search.hybrid.fusion import fuse
from quoth.search.rerank import ReadPassage, ScorePairs
from quoth.search.rerank_config import CROSS_ENCODER, RerankConfig
from quoth.search.searcher import Progress
from quoth.selfsupervision.known_items import KnownItem
from quoth.settings.config import Config
from quoth.settings.stored import MODELS, use_second_look
from quoth.training.recipes.fitted_reader import FitExample, FitRecipe, OpenReader, fit_reader

READER = "reader"
_SECOND = 50  # hits that a query is told from, those read first included
_ASKED = 200  # pseudo-queries that tell how familiar a collection is


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
    work.progress("asking how familiar the collection is", 0, _ASKED)
    relevance = familiarity(
        work.units, work.written, score=work.searchers.load_reranker(config.rerank)
    )
    if relevance >= config.learn.reranker_familiar:
        return {"fitted": False, "reason": _too_familiar(relevance, config)}
    recipe = FitRecipe(
        steps=steps,
        learning_rate=config.learn.reranker_learning_rate,
        share=config.learn.reranker_share,
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


def look_twice(store: Store, config: Config, *, note: Callable[[str], None]) -> bool:
    """Let search look at its best hits a second time, where a cross-encoder reranks them."""
    rerank = config.rerank
    can_look = rerank.by == CROSS_ENCODER and find_reranker(rerank) is not None
    looks = config.learn.second_look and can_look
    use_second_look(store, wanted=looks)
    if looks:
        note(
            "search looks at its best hits a second time from now on, by late interaction and by"
            " how likely they make the query, for about half as much time again"
            " (learn.second_look)"
        )
    return looks


def familiarity(
    units: Sequence[Unit], written: Mapping[int, Sequence[str]], *, score: ScorePairs
) -> float:
    """Return the median relevance of passages for the pseudo-queries written for them.

    It takes the first query of up to 200 passages, evenly spread; without any, it is −∞.
    """
    rows = [row for row in sorted(written) if any(each.strip() for each in written[row])]
    chosen = [rows[at] for at in spread(len(rows), _ASKED)] if rows else []
    queries = [next(filter(str.strip, written[row])) for row in chosen]
    sources = [units[row].source for row in chosen]
    found = score(queries, [ReadPassage(each.title, each.text) for each in sources])
    return median(found) if chosen else -math.inf


def _too_familiar(relevance: float, config: Config) -> str:
    return (
        "the reranker stays as it is: it knows such questions, as passages have a median relevance"
        f" of {relevance:.1f} for the pseudo-queries written for them (from"
        f" {config.learn.reranker_familiar:.1f} on, fine-tuning did no good or harm;"
        " learn.reranker_familiar=100 fine-tunes all the same)"
    )


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
        own = [hit for hit in hits[:FIRST] if hit.docid == docid]
        others = [hit for hit in hits[:FIRST] if hit.docid != docid]
        chosen = [
            *own,
            *chance.sample(others, min(sizes.near, len(others))),
            *chance.sample(hits[FIRST:], min(sizes.far, len(hits[FIRST:]))),
        ]
        if own and len(chosen) > 1:
            examples.append(FitExample(query.text, tuple(_read(work, query, chosen))))
    return examples


def judge_readers(
    work: RerankerWork, folders: Mapping[str, Path], *, count: int
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Let readers put the hits of held-out queries into order: what each rank is worth, by kind."""
    asked, items = work.judged.some_pseudo(count), take_some(work.judged.items, count)
    pseudo, known = _search(work, [query for query, _docid in asked]), _search_items(work, items)
    calibration = work.searchers.calibration
    found = {}
    for when, folder in folders.items():
        judge = open_judge(
            work.searchers, work.config, folder, calibration=calibration, progress=work.progress
        )
        scores = {
            PSEUDO: judge.pseudo(asked, pseudo),
            KNOWN: judge.items(work.store, items, known),
        }
        found[when] = {kind: {RERANKED: own} for kind, own in scores.items() if own}
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
        return False, "the reranker stays as it was: there are no held-out queries to judge it by"
    rise = fmean(
        fmean(own[RERANKED]) - fmean(before[kind][RERANKED]) for kind, own in after.items()
    )
    least = least_rise(before, after, RERANKED)
    found = f"reranked search {rise:+.4f} (at least {least:+.4f}) on held-out queries"
    if least > 0.0:
        return True, f"the fitted reranker is used: {found}"
    return False, f"the reranker stays as it was: {found}, which may be chance"


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
    return fuse(runs, fusion, weights=weights, ranges=ranges, k=FIRST)


def _search(work: RerankerWork, queries: Sequence[Query]) -> Run:
    return work.searchers.get("hybrid", syntax=False).search(queries, k=_SECOND, allowed=None)


def _read(work: RerankerWork, query: Query, hits: Sequence[Hit]) -> Iterable[TitledText]:
    for each in work.searchers.passages.read_hits("hybrid", query, hits, syntax=False):
        yield TitledText(each.title, each.text)
