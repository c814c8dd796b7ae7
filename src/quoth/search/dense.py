"""Search by vectors: documents and queries encoded by one model, compared by cosine.

A document has one vector per unit (a passage of its body with its other fields, or the whole) and
scores as its best unit. A row's content never changes, so catching up is encoding the rows that are
missing and dropping those that are gone; each chunk is durable before the next, and a killed
encoding resumes where it stopped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quoth.collection.store import CutDocument, Store
from quoth.collection.store_reader import StoredDocument
from quoth.errors import CollectionError, IndexMoved
from quoth.index.dense import DenseIndex
from quoth.index.dense_config import DenseConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.weights import WordCounts
from quoth.records import Document, Hit, Part, Passage, Query, Run
from quoth.search.searcher import Progress

_CHUNK = 128

OpenCounts = Callable[[], WordCounts]
"""Opens the collection's word statistics, which weighted attention needs."""


class DenseSearcher:
    """Vector search over one collection."""

    name = "dense"

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        encoder: GlowEncoder,
        config: DenseConfig,
        counts: OpenCounts,
        cut: CutDocument,
    ) -> None:
        self._folder = folder
        self._store = store
        self._encoder = encoder
        self._config = config
        self._counts = counts
        self._cut = cut
        self._index: DenseIndex | None = None

    # Searching -------------------------------------------------------------------------------

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query among the allowed rows (None: all)."""
        if not queries:
            return Run(self.name, {})
        found = self._opened().top_k(self._encode(queries), k, allowed=allowed)
        docids = self._store.docids(sorted({each.row for hits in found for each in hits}))
        if any(each.row not in docids for hits in found for each in hits):
            raise IndexMoved("a writer replaced the dense index during a search; search again")
        ranked = [[Hit(docids[each.row], each.score) for each in hits] for hits in found]
        return Run(
            self.name,
            {
                query.qid: tuple(sorted(hits, key=lambda hit: (-hit.score, hit.docid)))
                for query, hits in zip(queries, ranked, strict=True)
            },
        )

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Give each document's cosine, and say which of its units it is."""
        rows = self._store.rows([document.docid for document in documents])
        found = self._opened().top_k(
            self._encode([query]), max(1, len(rows)), allowed=set(rows.values())
        )[0]
        by_row = {each.row: each for each in found}
        return tuple(self._explain_one(document, rows, by_row) for document in documents)

    def score(self, queries: Sequence[Query], documents: Sequence[Document]) -> tuple[float, ...]:
        """Score each document for its own query, as if it were in the collection."""
        units = [list(self._units(document, self._cut(document))) for document in documents]
        flat = [fields for own in units for fields in own]
        encoded = self._encoder.encode_documents(flat, counts=self._word_counts())
        ends = list(itertools.accumulate(len(own) for own in units))
        vectors = self._encode(queries)
        return tuple(
            float((encoded.vectors[end - len(own) : end] @ vector).max())
            for own, end, vector in zip(units, ends, vectors, strict=True)
        )

    def best_passage(self, query: Query, document: Document, row: int) -> Passage | None:
        """Find the passage whose unit is nearest to the query."""
        found = self._opened().top_k(self._encode([query]), 1, allowed={row})[0]
        passages = self._body_passages(self._store.passages(document, row))
        unit = found[0].unit if found else 0
        return passages[unit] if unit < len(passages) else None

    def describe(self) -> dict[str, Any]:
        """Say what the index holds and which model made it."""
        index = self._opened()
        return {
            "change": index.change,
            "documents": len(index.rows()),
            "vectors": index.num_vectors,
            "encoder": self._encoder.identity()["name"],
            "storage": self._config.storage,
        }

    def close(self) -> None:
        """Let go of the opened state."""
        self._index = None

    def refresh(self) -> None:
        """Look at the newest state on disk from now on."""
        self.close()

    # Upkeep ----------------------------------------------------------------------------------

    def is_current(self, change: int) -> bool:
        """Whether everything up to a change is encoded."""
        index = self._open_index()
        return index.change == change and index.log == self._store.log_digest(change)

    def catch_up(self, store: Store, *, progress: Progress) -> None:
        """Encode what is missing, drop what is gone."""
        index = self._open_index()
        upto = store.change
        if index.log and index.log != store.log_digest(index.change):
            self._forget_all(index)  # rows of another history mean other documents
            index = self._open_index()
        live = store.live_rows()
        held = set(index.rows().tolist())
        index.remove(sorted(held - live))
        self._encode_rows(store, index, sorted(live - held), progress)
        index.compact_if_due()
        index.build_graph_if_due()
        index.record_change(upto, log=store.log_digest(upto))
        self.close()

    def rebuild(self, store: Store, *, progress: Progress) -> None:
        """Encode everything anew."""
        index = self._open_index()
        self._forget_all(index)
        self.catch_up(store, progress=progress)

    def find_damage(self, store: Store, *, progress: Progress) -> tuple[str, ...]:
        """Check every checksum of the index, and its rows against the store."""
        progress("checking vectors", 0, 0)
        try:
            index = self._open_index()
        except CollectionError as error:
            return (str(error),)
        damaged = index.find_damage()
        if damaged:
            return damaged
        if set(index.rows().tolist()) != store.live_rows():
            return (f"{self._folder} holds other documents than the store",)
        return ()

    # Inner workings --------------------------------------------------------------------------

    def _encode_rows(
        self, store: Store, index: DenseIndex, missing: Sequence[int], progress: Progress
    ) -> None:
        for start in range(0, len(missing), _CHUNK):
            progress("encoding documents", start, len(missing))
            documents = store.documents(missing[start : start + _CHUNK])
            self._add(store, index, [StoredDocument(r, documents[r]) for r in sorted(documents)])
        progress("encoding documents", len(missing), len(missing))

    def _add(self, store: Store, index: DenseIndex, chunk: Sequence[StoredDocument]) -> None:
        rows, units, texts = [], [], []
        for stored in chunk:
            passages = store.passages(stored.document, stored.row)
            for unit, fields in enumerate(self._units(stored.document, passages)):
                rows.append(stored.row)
                units.append(unit)
                texts.append(fields)
        encoded = self._encoder.encode_documents(texts, counts=self._word_counts())
        index.add(np.array(rows, dtype=np.int64), np.array(units, dtype=np.int32), encoded.vectors)

    def _units(
        self, document: Document, passages: Sequence[Passage]
    ) -> Iterator[Mapping[str, Sequence[str]]]:
        """Yield what gets a vector: each passage of the body with other fields, or the whole."""
        body = self._encoder.config.fields[-1]
        parts = self._body_passages(passages)
        if self._encoder.config.unit == "document" or not parts:
            yield document.fields
            return
        for passage in parts:
            yield {**document.fields, body: (passage.text,)}

    def _body_passages(self, passages: Sequence[Passage]) -> list[Passage]:
        body = self._encoder.config.fields[-1]
        return [passage for passage in passages if passage.field == body]

    def _explain_one(
        self, document: Document, rows: Mapping[str, int], found: Mapping[int, Any]
    ) -> Part:
        best = found.get(rows.get(document.docid, -1))
        if best is None:
            return Part("dense: not encoded", 0.0)
        leaf = Part(f"cosine with part {best.unit + 1} of the document", best.score)
        return Part("dense", best.score, (leaf,))

    def _encode(self, queries: Sequence[Query]) -> Any:
        texts = [query.text for query in queries]
        return self._encoder.encode_queries(texts, counts=self._word_counts()).vectors

    def _word_counts(self) -> WordCounts | None:
        return None if self._encoder.config.weighting == "none" else self._counts()

    def _forget_all(self, index: DenseIndex) -> None:
        index.remove(index.rows().tolist())
        index.compact()

    def _open_index(self) -> DenseIndex:
        return DenseIndex.open(self._folder, model=self._encoder.identity(), config=self._config)

    def _opened(self) -> DenseIndex:
        if self._index is None:
            self._index = self._open_index()
        return self._index
