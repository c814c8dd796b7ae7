"""Choose the passages of hits: what is shown of them, and what a model reads that reranks them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from quoth.collection.preparing import CutDocument
from quoth.collection.store import Store
from quoth.errors import IndexMoved
from quoth.index.lexical.passage_terms import PassageTerms
from quoth.interruption import check_interruption
from quoth.models.glow.config import GlowConfig
from quoth.records import TITLES, Document, Hit, Passage, Query, Snippet
from quoth.search.dense.units import body_passages
from quoth.search.near import Body
from quoth.search.rerank import ReadPassage, read_passage
from quoth.search.snippets import KeyedPassage, PassageChoice, make_snippets
from quoth.text.words import Analyser

BY_VECTORS = ("dense", "hybrid")
"""Searchers whose hits have a passage that is nearest to the query."""

Lexical = Callable[[bool], "TermIndex"]
"""Returns what BM25 knows; the flag says whether the signs of a query mean something."""

Near = Callable[[Query, Mapping[int, Document]], Mapping[int, Body]]
"""Returns how near the passages of documents are to a query, by row."""


class Plain(Protocol):
    """Returns what a query asks for in words alone."""

    def __call__(self, query: Query, *, syntax: bool) -> Query:
        """Leave out the signs if they mean something."""


class TermIndex(Protocol):
    """What BM25's index knows of queries and of the passages of documents."""

    def term_weights(self, query: Query) -> Mapping[str, float]:
        """Weigh the terms of a query."""

    def passage_terms(self, rows: Iterable[int]) -> Mapping[int, PassageTerms]:
        """Return the terms that are kept of the passages of documents, by row."""


class PassageChooser:
    """Chooses passages of stored documents for queries."""

    def __init__(
        self,
        store: Store,
        *,
        analyser: Analyser,
        cut: CutDocument,
        lexical: Lexical,
        near: Near,
        plain: Plain,
    ) -> None:
        self._store = store
        self._analyser = analyser
        self._cut = cut
        self._lexical = lexical
        self._near = near
        self._plain = plain

    def best(
        self,
        searcher: str,
        query: Query,
        stored: Mapping[int, Document],
        *,
        syntax: bool = True,
        besides: Collection[str] = (),
    ) -> dict[int, Passage | None]:
        """Choose the passage that each hit shows."""
        chosen = self.choose(searcher, query, stored, syntax=syntax, besides=besides)
        return {row: found[0] if found else None for row, found in chosen.items()}

    def choose(
        self,
        searcher: str,
        query: Query,
        stored: Mapping[int, Document],
        *,
        syntax: bool = True,
        besides: Collection[str] = (),
    ) -> dict[int, KeyedPassage | None]:
        """Choose the passage that each hit shows: where the query's words stand most.

        Hits by vectors show what their score is of, the passage nearest to the query; with fused
        ones, both count. Fields named in `besides` are chosen only from documents that have no
        other.
        """
        if not stored:
            return {}
        lexical = self._lexical(syntax)
        near: Mapping[int, Body] = {}
        if searcher in BY_VECTORS:
            near = self._near(self._plain(query, syntax=syntax), stored)
        choice = PassageChoice(
            lexical.term_weights(query),
            analyser=self._analyser,
            besides=besides,
            by_words=searcher != "dense",
        )
        kept = lexical.passage_terms(stored)
        if not near and len(kept) == len(stored):
            check_interruption()
            found = choice.among_each_kept(list(stored.values()), [kept[row] for row in stored])
            return dict(zip(stored, found, strict=True))
        chosen: dict[int, KeyedPassage | None] = {}
        rest = {row: document for row, document in stored.items() if row not in kept}
        cut = self._store.passages_by_row(rest) if rest else {}
        for row, document in stored.items():
            check_interruption()
            own = near.get(row)
            if row in kept:
                chosen[row] = choice.among_kept(document, kept[row], near=own)
            else:
                passage = choice.among(cut[row], near=own)
                chosen[row] = (passage, b"") if passage else None
        return chosen

    def snippets(
        self,
        query: Query,
        chosen: Mapping[int, KeyedPassage | None],
        *,
        syntax: bool,
        max_chars: int,
    ) -> dict[int, Snippet]:
        """Cut snippets of the passages that were chosen, by row; none of 0 characters."""
        shown = {row: found for row, found in chosen.items() if found} if max_chars else {}
        if not shown:
            return {}
        weights = self._lexical(syntax).term_weights(query)
        made = make_snippets(
            list(shown.values()), weights, analyser=self._analyser, max_chars=max_chars
        )
        return dict(zip(shown, made, strict=True))

    def read_hits(
        self, searcher: str, query: Query, hits: Sequence[Hit], *, syntax: bool
    ) -> list[ReadPassage]:
        """Return what is read of hits: the title, and the passage that is shown beside it."""
        row_by_docid = self._store.rows([hit.docid for hit in hits])
        stored = self._store.documents(sorted(row_by_docid.values()))
        if len(stored) < len(hits):
            raise IndexMoved("a writer removed a document during a search; search again")
        chosen = self.best(searcher, query, stored, syntax=syntax, besides=TITLES)
        rows = (row_by_docid[hit.docid] for hit in hits)
        return [read_passage(stored[row].title, chosen[row]) for row in rows]

    def read_document(self, query: Query, document: Document) -> ReadPassage:
        """Return what would be read of a document that is not in the collection."""
        weights = self._lexical(False).term_weights(query)
        choice = PassageChoice(weights, analyser=self._analyser, besides=TITLES)
        return read_passage(document.title, choice.among(self._cut(document)))


def nearness(
    documents: Mapping[str, tuple[Document, Sequence[Passage], Sequence[float]]],
) -> dict[Passage, float]:
    """Give each passage of documents that has a vector of its own its cosine with a query.

    `documents` holds, by docid, all passages, and cosines in order of the vectors; those of a
    document that is encoded as a whole, or otherwise than by default, are of no single passage.
    """
    found: dict[Passage, float] = {}
    for document, passages, cosines in documents.values():
        own = body_passages(document, passages, GlowConfig())
        if len(own) == len(cosines):
            found |= zip(own, cosines, strict=True)
    return found
