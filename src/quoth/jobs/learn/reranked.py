"""Judge what people see: the hits of held-out queries, once a reranker has put them into order."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quoth.collection.store import Store
from quoth.engine.calibrating import RerankingTrial, read_items
from quoth.engine.reranking import share_of, usual_width
from quoth.engine.searchers import Searchers
from quoth.records import Query, Run
from quoth.search.hybrid.calibration import Calibration
from quoth.search.hybrid.fusion_config import CalibrationConfig
from quoth.search.rerank_share import RerankTrial, worth_of
from quoth.search.searcher import Progress, ignore_progress
from quoth.selfsupervision.known_items import KnownItem
from quoth.settings.config import Config

RERANKED = "reranked"
"""The name of that search, beside lexical, dense and hybrid."""

FIRST = 20
"""Hits of a query that are read."""


def open_judge(
    searchers: Searchers,
    config: Config,
    reader: Path,
    *,
    calibration: Calibration | None,
    progress: Progress,
) -> RerankedJudge:
    """Let a reranker judge what these searchers find, with the share that it has in search."""
    rerank = replace(config.rerank, reader=str(reader))
    reranking = RerankingTrial(
        rerank,
        reader.name,
        width=usual_width(config),
        load=functools.partial(searchers.load_reranker, rerank),
        read=functools.partial(searchers.passages.read_hits, "hybrid", syntax=False),
        read_document=searchers.passages.read_document,
    )
    fusion = config.fusion
    judging = CalibrationConfig(normalise=fusion.normalise, depth=fusion.depth)
    return RerankedJudge(reranking, share_of(config.rerank, calibration), judging, progress)


@dataclass(frozen=True, slots=True)
class RerankedJudge:
    """Reads what was found for queries; a rank is worth its reciprocal, 0 beyond the tenth."""

    reranking: RerankingTrial
    share: float
    config: CalibrationConfig
    progress: Progress

    def pseudo(self, asked: Sequence[tuple[Query, str]], found: Run) -> list[float]:
        """Return what the rank of each query's document is worth."""
        score = self.reranking.load() if asked else None
        worths: list[float] = []
        for query, target in asked:
            self.progress("judging the reranked search", len(worths), len(asked))
            hits = found.hits[query.qid][:FIRST]
            if score is None or target not in {hit.docid for hit in hits}:
                worths.append(0.0)
                continue
            read = score([query.text] * len(hits), self.reranking.read(query, hits))
            worths.append(self._worth(RerankTrial(target, 1.0, hits, read)))
        return worths

    def items(self, store: Store, items: Sequence[KnownItem], found: Run) -> list[float]:
        """Do so for known items, each document read without the stretch that became the query."""
        hits = {qid: own[:FIRST] for qid, own in found.hits.items()}
        worths: list[float] = []
        for item in items:
            self.progress("judging the reranked search", len(worths), len(items))
            trials = read_items(self.reranking, store, [item], hits, progress=ignore_progress)
            worths.append(self._worth(trials[0]) if trials else 0.0)
        return worths

    def _worth(self, trial: RerankTrial) -> float:
        return worth_of(trial, self.share, self.reranking.width, self.config)
