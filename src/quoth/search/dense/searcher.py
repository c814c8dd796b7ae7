"""Search by vectors: documents and queries encoded by one model, compared by cosine.

A document has one vector per unit (a passage of its body with its other fields, or the whole) and
scores as its best unit. A row's content never changes, so catching up is encoding the units that
are missing (`filling.py`) and dropping the rows that are gone. Until all are encoded, search goes
by the vectors that are there: it looks for newer ones on disk before each search, and says which
documents have none. The encoder is loaded when first needed: what an index holds, and whether it is
current and whole, is told without it.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quoth.collection.preparing import CutDocument
from quoth.collection.store import Store
from quoth.errors import CollectionError, IndexMoved, OutOfFiles
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.rank import Found
from quoth.index.dense.state import read_state
from quoth.models.glow.weights import CountedWords
from quoth.records import Attention, Document, Hit, Part, Passage, Query, Run
from quoth.search.coverage import Coverage, HeldVectors
from quoth.search.dense.filling import EncodeChunks, EncodedChunk, Stage, fill_index
from quoth.search.dense.opened import OpenedVectors
from quoth.search.dense.record import EncodingRecord
from quoth.search.dense.units import UnitSource, body_field, body_passages, cut_units
from quoth.search.dense.words import OpenCounts, UnitWords
from quoth.search.near import Body, NearUnits
from quoth.search.searcher import Progress
from quoth.text.words import Analyser

if TYPE_CHECKING:
    from quoth.models.glow.encoded import Encoder, Vectors

LoadEncoder = Callable[[], "Encoder"]
"""Loads the model, which takes seconds."""


class DenseSearcher:
    """Vector search over one collection."""

    name = "dense"

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        load_encoder: LoadEncoder,
        config: DenseConfig,
        counts: OpenCounts,
        analyser: Analyser,
        cut: CutDocument,
    ) -> None:
        self.folder = folder
        self._store = store
        self._load_encoder = load_encoder
        self._words = UnitWords(store, counts, analyser)
        self._cut = cut
        self._record = EncodingRecord(folder)
        self._opened = OpenedVectors(
            folder, store, config=config, identify=lambda: self._words.identify(self._encoder)
        )
        self._asked: dict[tuple[str, ...], Vectors] = {}

    # Searching -------------------------------------------------------------------------------

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query among the allowed rows (None: all).

        A query without text finds nothing.
        """
        self._opened.look_for_newer()
        allowed = self._opened.allow(allowed)
        asked = [query for query in queries if query.text.strip()]
        found = self._top_with_ties(asked, k, allowed) if asked else []
        docids = self._store.docids(sorted({each.row for hits in found for each in hits}))
        if any(each.row not in docids for hits in found for each in hits):
            raise IndexMoved("a writer replaced the dense index during a search; search again")
        hits: dict[str, tuple[Hit, ...]] = {query.qid: () for query in queries}
        for query, best in zip(asked, found, strict=True):
            ranked = [Hit(docids[each.row], each.score) for each in best]
            hits[query.qid] = tuple(sorted(ranked, key=lambda hit: (-hit.score, hit.docid))[:k])
        return Run(self.name, hits)

    @property
    def is_partial(self) -> bool:
        """Whether not everything is encoded yet."""
        return self._opened.is_partial

    @property
    def held_share(self) -> float:
        """The share of all documents that have a vector."""
        return self._opened.held_share

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents have no vector yet."""
        return self._opened.lacking(docids)

    def has_word(self, word: str) -> bool:
        """Whether the encoder reads a word whole."""
        return self._encoder.inputs.has_word(word)

    def coverage(self) -> Coverage | None:
        """Say how much is encoded; None where everything is."""
        return self._opened.coverage(self._encoder.config)

    def held(self) -> HeldVectors:
        """Count what is encoded, and what is to be, in the newest state on disk."""
        self._opened.look_for_newer()
        return self._opened.held(self._encoder.config)

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Return each document's cosine, and say which of its units it is."""
        rows = self._store.rows([document.docid for document in documents])
        found = self._nearest(query, set(rows.values()))
        return tuple(
            self._explain_one(found.get(rows.get(document.docid, -1))) for document in documents
        )

    def score(self, queries: Sequence[Query], documents: Sequence[Document]) -> tuple[float, ...]:
        """Score each document for its own query, as if it were in the collection."""
        units = [list(self._units(document, self._cut(document))) for document in documents]
        flat = [fields for own in units for fields in own]
        encoded = self._encoder.encode_documents(flat, counts=self._word_counts())
        ends = itertools.accumulate(len(own) for own in units)
        vectors = self._encode(queries)
        return tuple(
            float((encoded.vectors[end - len(own) : end] @ vector).max())
            for own, end, vector in zip(units, ends, vectors, strict=True)
        )

    def body_cosines(self, query: Query, documents: Mapping[int, Document]) -> dict[int, Body]:
        """Return, for documents by row, which passages have a vector, and how near each is.

        A document that has one vector as a whole is left out.
        """
        config = self._encoder.config
        if config.unit == "document":
            return {}
        bodies = {row: body_field(document, config.fields) for row, document in documents.items()}
        found = self._opened.index.nearest_units(self._encode([query])[0], bodies)
        return {row: Body(bodies[row], own) for row, (_, own) in found.items() if bodies[row]}

    def near(self, query: Query, docids: Sequence[str]) -> dict[str, NearUnits]:
        """Return, of documents that have vectors, the one nearest to a query, and all cosines."""
        rows = self._store.rows(docids)
        found = self._opened.index.nearest_units(self._encode([query])[0], rows.values())
        return {docid: NearUnits(*found[row]) for docid, row in rows.items() if row in found}

    def query_vectors(self, queries: Sequence[Query]) -> Vectors:
        """Encode queries that have text."""
        return self._encode(queries)

    def know_vectors(self, queries: Sequence[Query], vectors: Vectors) -> None:
        """Take the vectors of queries from who has encoded them with the same model already."""
        self._keep(tuple(query.text for query in queries), vectors)

    def attention(
        self, query: Query, documents: Sequence[Document]
    ) -> tuple[Attention | None, ...]:
        """Say which words of the query and of each document's best unit the encoder looked at.

        None for a document that is not encoded, and where the encoder cannot be followed.
        """
        if not query.text.strip():
            return tuple(None for _document in documents)
        from quoth.models.glow.attention_report import report_attention

        rows = self._store.rows([document.docid for document in documents])
        best = self._nearest(query, set(rows.values()))
        units = [
            self._unit(document, best.get(rows.get(document.docid, -1))) for document in documents
        ]
        found = [unit for unit in units if unit is not None]
        told = iter(report_attention(self._encoder, query.text, found, counts=self._word_counts()))
        return tuple(None if unit is None else next(told) for unit in units)

    def describe(self) -> dict[str, Any]:
        """Say what the index holds, which model made it, and how much of the text it cut."""
        index, state = self._opened.open_as_is()
        rows = index.rows().tolist()
        return {
            "change": index.change,
            "documents": len(rows),
            "vectors": index.num_vectors,
            "encoder": state.model.get("name", ""),
            "storage": state.storage,
            "index": state.finder,
            **self._record.totals(set(rows)),
        }

    def close(self) -> None:
        """Let go of the opened state."""
        self._opened.close()
        self._asked = {}

    def refresh(self) -> None:
        """Look at the newest state on disk from now on."""
        self.close()

    # Upkeep ----------------------------------------------------------------------------------

    def is_current(self, change: int) -> bool:
        """Whether everything up to a change is encoded."""
        state, log = read_state(self.folder), self._store.log_digest(change)
        return state is not None and (state.change, state.log) == (change, log)

    def is_complete(self, change: int) -> bool:
        """Whether, besides, the graph or the codes are built that the settings ask for."""
        return self.is_current(change) and not self._opened.open_as_is()[0].approximate_is_due

    def catch_up(self, store: Store, *, progress: Progress) -> None:
        """Encode what is missing, drop what is gone."""

        def encode(chunks: Sequence[Sequence[int]], stage: Stage) -> Iterator[EncodedChunk]:
            return (self.encode_chunk(store, rows, stage) for rows in chunks)

        self.fill(store, encode=encode, progress=progress)

    def fill(self, store: Store, *, encode: EncodeChunks, progress: Progress) -> None:
        """Catch up with vectors that are made elsewhere."""
        index, upto, whole_upto = self._opened.open_anew(), store.change, 0
        if self._is_of_this_history(index, store):
            whole_upto = index.change
        else:
            self._forget_all(index)  # rows of another history mean other documents
        live = store.live_rows()
        index.remove(sorted(set(index.rows().tolist()) - live))
        fill_index(
            index,
            self._record,
            store,
            whole_upto=whole_upto,
            encode=encode,
            count_units=lambda rows: self._count_units(store, rows),
            progress=progress,
        )
        index.compact_if_due()
        index.build_approximate_if_due(progress=progress)
        index.record_change(upto, log=store.log_digest(upto))
        self._record.compact(live)
        self.close()

    def encode_chunk(self, store: UnitSource, wanted: Sequence[int], stage: Stage) -> EncodedChunk:
        """Encode the units of some rows that a stage asks for; what is gone is left out."""
        rows, units, texts = [], [], []
        for row, document in sorted(store.documents(wanted).items()):
            own = list(self._units(document, store.passages(document, row)))
            for unit, fields in enumerate(stage.of(own), start=stage.start):
                rows.append(row)
                units.append(unit)
                texts.append(fields)
        encoded = self._encoder.encode_documents(texts, counts=self._word_counts())
        return EncodedChunk(tuple(rows), tuple(units), encoded)

    @property
    def width(self) -> int:
        """Length of a vector."""
        return self._encoder.width

    def rebuild(self, store: Store, *, progress: Progress) -> None:
        """Encode everything anew."""
        self.discard()
        self.catch_up(store, progress=progress)

    def discard(self) -> None:
        """Delete all vectors, whichever model made them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.close()

    def is_foreign(self) -> bool:
        """Whether the vectors on disk cannot be used with the configured model and storage."""
        return self._opened.find_difference() != ""

    def find_damage(self, store: Store, *, progress: Progress) -> tuple[str, ...]:
        """Check every checksum of the index, and the index against the store."""
        progress("checking vectors", 0, 0)
        try:
            index, _state = self._opened.open_as_is()
        except OutOfFiles:
            raise
        except CollectionError as error:
            return (str(error),)
        damaged = index.find_damage()
        if damaged:
            return damaged
        if index.change > store.change:
            return (f"{self.folder} is at change {index.change}, the store at {store.change}",)
        if not self._is_of_this_history(index, store):
            return (f"{self.folder} follows another history than the store",)
        is_behind = index.change < store.change
        if is_behind or np.array_equal(index.rows(), np.fromiter(store.ordered_rows(), np.int64)):
            return ()
        return (f"{self.folder} holds other documents than the store",)

    def num_behind(self, store: Store) -> int:
        """Count the changes that catching up would bring."""
        try:
            index, _state = self._opened.open_as_is()
        except CollectionError:
            return 0  # damage, which `find_damage` tells of
        is_ours = index.change <= store.change and self._is_of_this_history(index, store)
        return store.change - index.change if is_ours else 0

    # Inner workings --------------------------------------------------------------------------

    @cached_property
    def _encoder(self) -> Encoder:
        return self._load_encoder()

    def _top_with_ties(
        self, queries: Sequence[Query], k: int, allowed: set[int] | None
    ) -> list[list[Found]]:
        """Find the k best rows of each query and all that tie with the last: docids decide."""
        vectors, depth = self._encode(queries), k + 1
        while True:
            found = self._opened.index.top_k(vectors, depth, allowed=allowed)
            if all(len(hits) < depth or hits[-1].score < hits[k - 1].score for hits in found):
                return found
            depth *= 4

    def _nearest(self, query: Query, rows: set[int]) -> dict[int, Found]:
        """Find the best unit of each of these rows."""
        if not rows:
            return {}
        (found,) = self._opened.index.top_k(self._encode([query]), len(rows), allowed=rows)
        return {each.row: each for each in found}

    def _count_units(self, store: UnitSource, rows: Sequence[int]) -> dict[int, int]:
        return {
            row: sum(1 for _unit in self._units(document, store.passages(document, row)))
            for row, document in store.documents(rows).items()
        }

    def _units(
        self, document: Document, passages: Sequence[Passage]
    ) -> Iterator[Mapping[str, Sequence[str]]]:
        """Yield what gets a vector: each passage of the body with other fields, or the whole."""
        return cut_units(document, passages, self._encoder.config)

    def _unit(self, document: Document, best: Found | None) -> Mapping[str, Sequence[str]] | None:
        """Return the unit that was found of a document, None where none was."""
        if best is None:
            return None
        units = self._units(document, self._store.passages(document, best.row))
        return next(itertools.islice(units, best.unit, None), None)

    def _body_passages(self, document: Document, passages: Sequence[Passage]) -> list[Passage]:
        """List the passages that have a vector of their own; none if the document has one."""
        return body_passages(document, passages, self._encoder.config)

    def _explain_one(self, best: Found | None) -> Part:
        if best is None:
            return Part("dense: not encoded", 0.0)
        leaf = Part(f"cosine with part {best.unit + 1} of the document", best.score)
        return Part("dense", best.score, (leaf,))

    def _encode(self, queries: Sequence[Query]) -> Vectors:
        """Encode queries; the last 64 are kept, as many are asked again."""
        texts = tuple(query.text for query in queries)
        if texts not in self._asked:
            encoded = self._encoder.encode_queries(texts, counts=self._word_counts())
            self._keep(texts, encoded.vectors)
        return self._asked[texts]

    def _keep(self, texts: tuple[str, ...], vectors: Vectors) -> None:
        self._asked = dict([*self._asked.items(), (texts, vectors)][-64:])

    def _word_counts(self) -> CountedWords | None:
        return self._words.counted(self._encoder.config)

    def _is_of_this_history(self, index: DenseIndex, store: Store) -> bool:
        """Whether all rows held, those of an unfinished encoding included, are this store's."""
        is_finished = index.log != "" or index.change > 0
        if is_finished and index.log != store.log_digest(index.change):
            return False
        return self._record.is_of_history(store)

    def _forget_all(self, index: DenseIndex) -> None:
        index.remove(index.rows().tolist())
        index.compact()
        self._record.clear()
