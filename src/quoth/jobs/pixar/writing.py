"""Identifiers for documents that have none, and labelled queries for those that have.

What the query generator writes is kept as in `quoth learn`: only if BM25 finds the document for it
among the first does a pseudo-query name that document. It goes into the store, so that search names
documents by the very texts that were trained on. The job's folder notes it first, so that a job
that is interrupted in between knows its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from quoth.artifact import write_text_atomically
from quoth.jobs.context import JobContext
from quoth.jobs.learn.pairs import read_labelled
from quoth.jobs.learn.queries import (
    PassageLookup,
    Unit,
    list_units,
    one_by_one,
    read_written,
    spread,
    write_queries,
)
from quoth.jobs.learn.round_trip import ORIGIN, keep_found, without_repeats
from quoth.jobs.pixar.plan import BuildRates, WritingPlan, plan_writing
from quoth.jobs.pixar.texts import LABELLED, NOTHING, AskedQuery, LabelledAsked
from quoth.models.glow.files import find_config
from quoth.models.pretrained import find_folder
from quoth.models.query_generator.generator import QueryGenerator
from quoth.settings.pixar import PixarBuildConfig
from quoth.text.words import Analyser

_WRITTEN, _OWN_NAMES = "written", "own-names.json"
_SHARE = 0.01  # list_units splits documents, which plays no part here


@dataclass(frozen=True, slots=True)
class WrittenNames:
    """What writing came to."""

    documents: int = 0
    written: int = 0
    kept: int = 0
    seconds: float = 0.0
    """As planned, so that what follows is planned alike however fast it was."""


def write_missing(
    context: JobContext,
    config: PixarBuildConfig,
    *,
    folder: Path,
    rates: BuildRates,
    device: torch.device,
) -> WrittenNames:
    """Write identifiers for documents without any, and put those that find them into the store."""
    units, own_names = _list_units(context, seed=config.seed), read_own_names(folder)
    rows_by_docid: dict[str, list[int]] = {}
    for row, unit in enumerate(units):
        is_unnamed = unit.docid in own_names or not context.store.identifiers(unit.docid)
        if unit.source.whole and is_unnamed:
            rows_by_docid.setdefault(unit.docid, []).append(row)
    settings = context.config.generative
    plan = plan_writing(len(rows_by_docid), config, most_each=settings.written, rates=rates)
    if not plan.num_documents:
        return WrittenNames()
    docids = list(rows_by_docid)
    chosen = [rows_by_docid[docids[at]] for at in spread(len(docids), plan.num_documents)]
    rows = [own[at] for own in chosen for at in spread(len(own), plan.each)]
    per_passage = max(1, round(plan.each * len(chosen) / len(rows)))
    writer = QueryGenerator.load(
        settings.generator, device=device if device.type == "cuda" else None
    )
    write_queries(
        units,
        rows,
        folder / _WRITTEN,
        one_by_one(
            lambda texts: writer.generate(
                texts, per_passage=per_passage, seed=config.seed, temperature=config.temperature
            )
        ),
        progress=lambda done, total: context.progress("writing identifiers", done, total),
    )
    return _keep(context, units, folder, plan)


def read_own_names(folder: Path) -> dict[str, list[str]]:
    """Read what a job has put into the store, or was about to, by document."""
    path = folder / _OWN_NAMES
    if not path.exists():
        return {}
    found: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def read_labelled_queries(
    context: JobContext, path: Path | None, docids: Sequence[str], *, seed: int
) -> LabelledAsked:
    """Read labelled pairs and find their documents; text that is in no document is left out."""
    if path is None:
        return NOTHING
    units = _list_units(context, seed=seed)
    searchers = context.make_searchers(context.store, context.config)
    searchers.catch_up(context.store, searcher="lexical", progress=context.progress)
    analyser = Analyser(context.config.analyser)
    lookup = PassageLookup(units, searchers.lexical(syntax=False), analyser=analyser)
    found = read_labelled(path, units, lookup, seed=seed)
    searchers.close()
    place_by_docid = {docid: at for at, docid in enumerate(docids)}
    training = tuple(
        AskedQuery(each.text, (place_by_docid[units[each.source_row].docid],), LABELLED)
        for each in found.training
        if each.source_row >= 0
    )
    judged = tuple(
        AskedQuery(
            each.query.text, tuple(sorted(place_by_docid[docid] for docid in each.docids)), LABELLED
        )
        for each in found.judged
    )
    return LabelledAsked(training, judged)


def _keep(
    context: JobContext, units: Sequence[Unit], folder: Path, plan: WritingPlan
) -> WrittenNames:
    """Store what finds its document again."""
    written = read_written(folder / _WRITTEN)
    with closing(context.make_searchers(context.store, context.config)) as searchers:
        searchers.catch_up(context.store, searcher="lexical", progress=context.progress)
        sides = (searchers.lexical(syntax=False),)
        kept = keep_found(units, written, sides, context.progress)
    named = {docid: texts for docid, texts in without_repeats(kept).items() if texts}
    write_text_atomically(folder / _OWN_NAMES, json.dumps(named) + "\n")
    store = context.store
    new = {docid: own for docid, own in named.items() if store.identifiers(docid) != tuple(own)}
    if new:  # each put is a change, which an interrupted run may have made already
        store.put_identifiers(new, origin=ORIGIN)
    total, count = sum(map(len, written.values())), sum(map(len, named.values()))
    return WrittenNames(plan.num_documents, total, count, plan.seconds)


def _list_units(context: JobContext, *, seed: int) -> list[Unit]:
    folder = find_folder(context.config.dense.encoder)
    settings = find_config(folder)
    return list_units(context.store, settings, share=_SHARE, seed=seed)
