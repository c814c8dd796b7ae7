"""Which pseudo-queries name their document: those that a search finds it for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quoth.jobs.learn.queries import Unit
from quoth.records import Query
from quoth.search.searcher import Progress, Searcher

ORIGIN = "pseudo-query"
"""What identifiers that a query generator wrote are kept under."""

_DEPTH = 20  # hits among which a search has to find the document


def keep_found(
    units: Sequence[Unit],
    written: Mapping[int, Sequence[str]],
    searchers: Sequence[Searcher],
    progress: Progress,
) -> dict[str, list[str]]:
    """Return the pseudo-queries of each document for which one of the searchers finds it."""
    asked = [
        (Query(f"{row}:{at}", text), units[row].docid)
        for row, own in sorted(written.items())
        for at, text in enumerate(own)
    ]
    progress("searching for pseudo-queries", 0, len(asked))
    queries = [query for query, _docid in asked]
    runs = [searcher.search(queries, k=_DEPTH, allowed=None) for searcher in searchers]
    kept: dict[str, list[str]] = {docid: [] for _query, docid in asked}
    for query, docid in asked:
        if any(hit.docid == docid for run in runs for hit in run.hits[query.qid]):
            kept[docid].append(query.text)
    return kept


def without_repeats(kept: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Drop what names a document twice."""
    return {docid: list(dict.fromkeys(texts)) for docid, texts in kept.items()}
