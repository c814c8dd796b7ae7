"""Find out how to fuse without labels: by searching for known items that were held out.

Each query is a title, heading, sentence or span of one document. So that nobody finds it merely by
its own words, the document is scored as if that stretch were not in it, and takes the place in the
ranking that this score earns; all others are ranked as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from quoth.collection.store_reader import StoredDocument
from quoth.records import Document, Hit, Query, Run
from quoth.search.hybrid.calibration import Calibration, ShareCalibration, Target, calibrate
from quoth.search.hybrid.fusion import convex, measure_ranges
from quoth.search.hybrid.fusion_config import CalibrationConfig, FusionConfig
from quoth.search.rerank import ReadHits, ReadPassage, ScorePairs
from quoth.search.rerank_config import RerankConfig
from quoth.search.rerank_share import RerankTrial, calibrate_share
from quoth.search.searcher import Progress, ScoringSearcher, Searcher
from quoth.selfsupervision.known_items import KnownItem, hold_out, make_known_items
from quoth.text.words import Analyser

NUM_QUERIES = 300
NUM_RERANKED, DEPTH_RERANKED = 50, 20
"""Known items whose hits are read, and how many of each: it takes longer than all the rest."""
NUM_RANGED = 60
"""Known items that tell how far scores of generative search reach."""
LEAST_RERANKED = 100
"""Documents that known items come from, below which nothing is read: it would not pay."""


ReadDocument = Callable[[Query, Document], ReadPassage]
"""Returns what would be read of a document that is not in the collection."""


@dataclass(frozen=True, slots=True)
class RerankingTrial:
    """What is needed to find out what reranking is worth; `model` tells it from another."""

    config: RerankConfig
    model: str
    width: float | None
    load: Callable[[], ScorePairs]
    read: ReadHits
    read_document: ReadDocument


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
    reranking: RerankingTrial | None = None,
    seed: int,
    progress: Progress,
) -> Calibration:
    """Choose the weights of fusing these searchers for this collection, and reranking's share."""
    documents = (stored.document for stored in store.live_documents())
    items = make_known_items(documents, analyser=analyser, count=NUM_QUERIES, seed=seed)
    runs = [
        search_held_out(store, searcher, items, depth=fusion.depth, progress=progress)
        for searcher in searchers
    ]
    targets = [Target(item.query.qid, item.docid, item.overlap) for item in items]
    config = CalibrationConfig(normalise=fusion.normalise, depth=fusion.depth, seed=seed)
    found = calibrate(runs, targets, config)
    if reranking is None:
        return found
    fused = convex(
        runs,
        weights=found.weights,
        normalise=fusion.normalise,
        ranges=found.usual_ranges(),
        k=min(DEPTH_RERANKED, reranking.config.depth),
    )
    tells = len({item.docid for item in items}) >= LEAST_RERANKED
    tried = items[:: max(1, len(items) // NUM_RERANKED)][:NUM_RERANKED] if tells else ()
    share = _try_reranking(reranking, store, tried, fused.hits, config=config, progress=progress)
    return replace(found, rerank=share)


def measure_generative(
    store: DocumentSource,
    searcher: Searcher,
    *,
    analyser: Analyser,
    depth: int,
    seed: int,
    progress: Progress,
) -> dict[str, float]:
    """Find how far the scores of generative search usually reach, by its name.

    Known items ask, and the document that each was made from is left out of what they find, as its
    names have the very words of the query. Empty where nothing is found.
    """
    documents = (stored.document for stored in store.live_documents())
    items = make_known_items(documents, analyser=analyser, count=NUM_RANGED, seed=seed)
    progress(f"trying {searcher.name} search", 0, len(items))
    found = searcher.search([item.query for item in items], k=depth + 1, allowed=None).hits
    hits = {
        item.query.qid: tuple(h for h in found[item.query.qid] if h.docid != item.docid)[:depth]
        for item in items
    }
    return dict(measure_ranges([Run(searcher.name, hits)], depth=depth).widths)


def _try_reranking(
    reranking: RerankingTrial,
    store: DocumentSource,
    items: Sequence[KnownItem],
    found: Mapping[str, tuple[Hit, ...]],
    *,
    config: CalibrationConfig,
    progress: Progress,
) -> ShareCalibration:
    return calibrate_share(
        read_items(reranking, store, items, found, progress=progress),
        default=reranking.config.weight,
        model=reranking.model,
        config=config,
        width=reranking.width,
    )


def read_items(
    reranking: RerankingTrial,
    store: DocumentSource,
    items: Sequence[KnownItem],
    found: Mapping[str, tuple[Hit, ...]],
    *,
    progress: Progress,
) -> list[RerankTrial]:
    """Read what was found for each item, its own document without the stretch it was made from.

    Items whose document was not found tell nothing and are left out.
    """
    score = reranking.load() if items else None
    trials = []
    for number, item in enumerate(items):
        progress("trying reranking", number, len(items))
        hits = found.get(item.query.qid, ())
        if score is not None and item.docid in {hit.docid for hit in hits}:
            own = hold_out(_document(store, item.docid), item)
            passages = _read(reranking, item, hits, own)
            scores = score([item.query.text] * len(passages), passages)
            trials.append(RerankTrial(item.docid, item.overlap, hits, scores))
    progress("trying reranking", len(items), len(items))
    return trials


def _read(
    reranking: RerankingTrial, item: KnownItem, hits: Sequence[Hit], own: Document
) -> list[ReadPassage]:
    others = [hit for hit in hits if hit.docid != item.docid]
    passages = dict(
        zip((hit.docid for hit in others), reranking.read(item.query, others), strict=True)
    )
    passages[item.docid] = reranking.read_document(item.query, own)
    return [passages[hit.docid] for hit in hits]


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
