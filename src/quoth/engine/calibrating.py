"""Find out how to fuse without labels: by searching for known items that were held out.

Each query is a title, heading, sentence or span of one document. So that nobody finds it merely by
its own words, the document is scored as if that stretch were not in it, and takes the place in the
ranking that this score earns; all others are ranked as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from quoth.collection.store_reader import StoredDocument
from quoth.records import Document, Hit, Run
from quoth.search.hybrid.calibration import Calibration, Target, calibrate
from quoth.search.hybrid.fusion_config import CalibrationConfig, FusionConfig
from quoth.search.searcher import Progress, ScoringSearcher
from quoth.selfsupervision.known_items import KnownItem, hold_out, make_known_items
from quoth.text.words import Analyser

NUM_QUERIES = 300


class DocumentSource(Protocol):
    """Where known items are taken from; `Store` is one."""

    def live_documents(self) -> Iterator[StoredDocument]:
        """Yield all documents in row order."""
        ...

    def rows(self, docids: Sequence[str]) -> dict[str, int]:
        """Map docids to rows."""
        ...

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Map rows to documents."""
        ...


def calibrate_fusion(
    store: DocumentSource,
    searchers: Sequence[ScoringSearcher],
    *,
    analyser: Analyser,
    fusion: FusionConfig,
    seed: int,
    progress: Progress,
) -> Calibration:
    """Choose the weights of fusing these searchers for this collection."""
    documents = (stored.document for stored in store.live_documents())
    items = make_known_items(documents, analyser=analyser, count=NUM_QUERIES, seed=seed)
    runs = [
        search_held_out(store, searcher, items, depth=fusion.depth, progress=progress)
        for searcher in searchers
    ]
    targets = [Target(item.query.qid, item.docid, item.overlap) for item in items]
    config = CalibrationConfig(normalise=fusion.normalise, depth=fusion.depth, seed=seed)
    return calibrate(runs, targets, config)


def search_held_out(
    store: DocumentSource,
    searcher: ScoringSearcher,
    items: Sequence[KnownItem],
    *,
    depth: int,
    progress: Progress,
) -> Run:
    """Search for each item as if the stretch it was made from were not in its document."""
    progress(f"trying {searcher.name} search", 0, len(items))
    queries = [item.query for item in items]
    found = searcher.search(queries, k=depth + 1, allowed=None)
    documents = [hold_out(_document(store, item.docid), item) for item in items]
    scores = searcher.score(queries, documents)
    hits = {}
    for item, own in zip(items, scores, strict=True):
        ranked = [hit for hit in found.hits[item.query.qid] if hit.docid != item.docid]
        if own != 0:  # 0 is no match; a cosine may be negative
            ranked.append(Hit(item.docid, own))
        ranked.sort(key=lambda hit: (-hit.score, hit.docid))
        hits[item.query.qid] = tuple(ranked[:depth])
    progress(f"trying {searcher.name} search", len(items), len(items))
    return Run(searcher.name, hits)


def _document(store: DocumentSource, docid: str) -> Document:
    row = store.rows([docid])[docid]
    return store.documents([row])[row]
