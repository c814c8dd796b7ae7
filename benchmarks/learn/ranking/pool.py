"""The documents that are looked at for each query, and what is known of them without reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learn.ranking.signs import Floats, Pair
from quoth.collection.store import Store
from quoth.engine.searchers import Searchers
from quoth.index.dense.storage import dequantise
from quoth.models.glow.config import GlowConfig
from quoth.records import Hit, Query
from quoth.search.dense.units import body_passages
from quoth.search.rerank import ReadPassage
from quoth.search.standings import mix
from quoth.text.passages import cut_document

FIRST, BESIDE, VOICED = 60, 20, 30
NUM_BANK = 256


class Pool:
    """The documents that are looked at for each query."""

    def __init__(self, store: Store, searchers: Searchers, queries: Sequence[Query]) -> None:
        self._store, self._searchers, self._queries = store, searchers, queries
        hits = searchers.get("hybrid", syntax=False).search(queries, k=100, allowed=None).hits
        bm25 = searchers.lexical(syntax=False).search(queries, k=100, allowed=None).hits
        dense = searchers.dense()
        self._bm25 = [{hit.docid: hit.score for hit in bm25[query.qid]} for query in queries]
        self._hits = [hits[query.qid] for query in queries]
        self._fused = [{hit.docid: hit.score for hit in own} for own in self._hits]
        self._floors = np.array(
            [min((h.score for h in bm25[q.qid]), default=0.0) for q in queries], np.float32
        )
        index = dense._opened.index
        rows, units, stored = index.read(index.rows())
        order = np.lexsort((units, rows))
        self._rows = rows[order]
        self._vectors = _unit(dequantise(*stored)[order].astype(np.float32))
        self._starts = {int(row): at for at, row in reversed(list(enumerate(self._rows)))}
        self._query_vectors = dense.query_vectors(queries)
        self._docids = store.docids(sorted(self._starts))
        self._row_by_docid = {docid: row for row, docid in self._docids.items()}
        self._places = [[hit.docid for hit in own[:FIRST]] for own in self._hits]
        self._others: dict[tuple[int, int], list[Pair]] = {}

    def pairs(self, places: range) -> Iterator[tuple[tuple[int, int], Pair]]:
        """Yield what is read of the documents at some places, by query and place."""
        for at, (query, docids) in enumerate(zip(self._queries, self._places, strict=True)):
            wanted = docids[places.start : places.stop]
            if not wanted:
                continue
            hits = [Hit(docid, 0.0) for docid in wanted]
            passages = self._searchers.passages.read_hits("hybrid", query, hits, syntax=False)
            for place, passage in enumerate(passages, places.start):
                yield (at, place), Pair(query.text, passage)

    def go_beside(self, relevance: Floats, share: float) -> None:
        """Add documents near the query and its best hits, and near each of those hits."""
        for at, docids in enumerate(self._places):
            docids += [""] * (FIRST - len(docids))
            hits = self._hits[at][:VOICED]
            read = relevance[at, : len(hits)].tolist()
            if not hits:
                continue
            mixed = mix(hits, read, weight=share, width=16.0)
            best = sorted(range(len(hits)), key=lambda place: -mixed[place].score)[:3]
            own = np.stack([self._nearest(at, hits[place].docid) for place in best])
            centre = (own / np.arange(1, len(own) + 1)[:, None]).sum(0)
            found = dict.fromkeys(self._search(_unit(self._query_vectors[at] + _unit(centre)), 30))
            neighbours = [self._search(each, 12) for each in own]
            for rank in range(12):
                found |= dict.fromkeys(each[rank] for each in neighbours if rank < len(each))
            docids += [docid for docid in found if docid not in set(docids)][:BESIDE]

    def columns(self, grades: Mapping[str, Mapping[str, int]]) -> dict[str, NDArray[Any]]:
        """Return what is known without reading: scores, grades, and how alike documents are."""
        size = len(self._queries), FIRST + BESIDE
        found = {name: np.full(size, np.nan, np.float32) for name in ("bm25", "cosine", "fused")}
        rows, grade = np.full(size, -1, np.int32), np.zeros(size, np.int8)
        alike = np.zeros((*size, size[1]), np.int8)
        for at, docids in enumerate(self._places):
            known = [place for place, docid in enumerate(docids) if docid]
            for place in known:
                docid = docids[place]
                found["bm25"][at, place] = self._bm25[at].get(docid, np.nan)
                found["fused"][at, place] = self._fused[at].get(docid, np.nan)
                grade[at, place] = grades[self._queries[at].qid].get(docid, 0)
                rows[at, place] = self._row_by_docid.get(docid, -1)
            units = np.stack([self._nearest(at, docids[place]) for place in known])
            found["cosine"][at, known] = units @ self._query_vectors[at]
            cosines = np.round(127 * units @ units.T).clip(-127, 127)
            alike[np.ix_([at], known, known)] = cosines[None]
        ideal = np.zeros((len(self._queries), 10), np.int8)
        for at, query in enumerate(self._queries):
            best = sorted((g for g in grades[query.qid].values() if g > 0), reverse=True)[:10]
            ideal[at, : len(best)] = best
        return {
            **found,
            "rows": rows,
            "grade": grade,
            "alike": alike,
            "ideal": ideal,
            "bm25 floor": self._floors,
            "words": np.array([len(q.text.split()) for q in self._queries], np.int16),
            "qids": np.array([q.qid for q in self._queries]),
            "units": np.array([self._count(row) for row in rows.ravel().tolist()]).reshape(size),
        }

    def other_passages(self, pairs: Mapping[tuple[int, int], Pair]) -> dict[Any, list[Pair]]:
        """Return the two passages of each longer document near the query, not those read."""
        found = {}
        cut: dict[str, tuple[Any, list[str]]] = {}
        config = self._searchers._config.passages
        for at, place in pairs:
            docid = self._places[at][place]
            start = self._starts.get(self._row_by_docid.get(docid, -1))
            count = 0 if start is None else self._count(self._row_by_docid[docid])
            if start is None or count < 2:
                continue
            if docid not in cut:
                row = self._row_by_docid[docid]
                document = self._store.documents([row])[row]
                own = body_passages(document, cut_document(document, config), GlowConfig())
                cut[docid] = document.title, [each.text for each in own]
            title, texts = cut[docid]
            if len(texts) != count:
                continue
            cosines = self._vectors[start : start + count] @ self._query_vectors[at]
            read = pairs[at, place].passage.text
            best = [texts[unit] for unit in np.argsort(-cosines) if texts[unit] != read][:2]
            query = self._queries[at].text
            found[at, place] = [Pair(query, ReadPassage(title, text)) for text in best]
        return found

    def bank(self, generator: Any) -> list[str]:
        """Write queries for passages that are evenly spread over the collection."""
        rows = sorted(self._docids)
        chosen = [rows[len(rows) * at // NUM_BANK] for at in range(min(NUM_BANK, len(rows)))]
        documents = self._store.documents(chosen)
        config = self._searchers._config.passages
        texts = [cut_document(documents[row], config)[-1].text for row in chosen]
        written = generator.generate(texts, per_passage=1, seed=0)
        return [own[0] for own in written if own and own[0].strip()]

    def hubness(self, bank: Floats) -> dict[str, Floats]:  # (N, D)
        """Return how near documents are to queries about others, and to other documents."""
        unique = sorted({row for own in self._places for row in map(self._row, own) if row >= 0})
        cosines = _multiply(self._vectors, bank)  # (U, N)
        mean, top = cosines.mean(1), np.sort(cosines, 1)[:, -10:].mean(1)
        dense = {}
        for row in unique:
            own = slice(self._starts[row], self._starts[row] + self._count(row))
            dense[row] = float(mean[own].max()), float(top[own].max())
        size = len(self._queries), FIRST + BESIDE
        found = {name: np.full(size, np.nan, np.float32) for name in ("bank mean", "bank top")}
        for at, docids in enumerate(self._places):
            for place, docid in enumerate(docids):
                if self._row(docid) >= 0:
                    found["bank mean"][at, place], found["bank top"][at, place] = dense[
                        self._row(docid)
                    ]
        best = np.sort(_multiply(self._query_vectors, bank), 1)[:, -10:].mean(1)
        return {**found, "query bank top": best}

    def _row(self, docid: str) -> int:
        return self._row_by_docid.get(docid, -1)

    def _count(self, row: int) -> int:
        """Count the vectors of a document."""
        start = self._starts.get(row)
        return 0 if start is None else int(np.searchsorted(self._rows, row, "right")) - start

    def _nearest(self, at: int, docid: str) -> Floats:
        row = self._row(docid)
        if row < 0:
            return np.zeros(self._vectors.shape[1], np.float32)
        own = self._vectors[self._starts[row] : self._starts[row] + self._count(row)]
        best: Floats = own[(own @ self._query_vectors[at]).argmax()]
        return best

    def _search(self, vector: Floats, k: int) -> list[str]:
        cosines = self._vectors @ vector
        count = min(3 * k, len(cosines))
        best = np.argpartition(-cosines, count - 1)[:count]
        best = best[np.argsort(-cosines[best])]
        rows = dict.fromkeys(int(self._rows[each]) for each in best)
        return [self._docids[row] for row in list(rows)[:k] if row in self._docids]


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def _multiply(left: Floats, right: Floats) -> Floats:
    return np.concatenate([left[at : at + 8192] @ right.T for at in range(0, len(left), 8192)])
