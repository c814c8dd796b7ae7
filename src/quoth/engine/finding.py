"""Find hits with everything that is shown of them: the one path of a search.

Whoever searches (Python, the command line, the server, a shard for its port) comes through here.
All is read in one snapshot of the store, documents and passages of all hits in one query each, so a
document that a writer changes meanwhile is seen as it was or as it is, never half. Scores are those
of the ranking; nothing is explained unless asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from quoth.collection.content import document_texts
from quoth.collection.store import Store
from quoth.collection.store_reader import StoredDocument
from quoth.engine.lookup import allowed_rows, find_newest, stored_hits
from quoth.engine.searchers import Searchers
from quoth.records import (
    Document,
    Hit,
    Passage,
    Query,
    RankAndScore,
    SearchRequest,
    ShownHit,
    ShownHits,
    Snippet,
    Span,
)
from quoth.search.hybrid.searcher import HybridSearcher
from quoth.search.lexical.searcher import LexicalSearcher
from quoth.search.lexical.suggestions import correct_query
from quoth.search.lexical.ties import tie_start
from quoth.search.rerank import RerankingSearcher
from quoth.search.searcher import Searcher, Timed, untimed
from quoth.search.snippets import make_snippet
from quoth.text.places import find_place
from quoth.text.signatures import make_signature
from quoth.vocabulary.statistics import EVERYTHING

CutSnippet = Callable[[Passage], Snippet]
"""Cuts what is shown of a passage, around the words of a query."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A search that was done, and what can be told of its hits afterwards."""

    request: SearchRequest
    using: Searcher
    allowed: set[int] | None = None

    @property
    def query(self) -> Query:
        """The query as searchers take it."""
        return Query("", self.request.query)

    def find(self) -> tuple[Hit, ...]:
        """Find the best hits, those before the page that was asked for included."""
        found = self.using.search([self.query], k=self.request.reach, allowed=self.allowed)
        return found.hits[self.query.qid]

    def with_finders(self, shown: Sequence[ShownHit]) -> list[ShownHit]:
        """Add who found each hit: the sides of a fused search, or the one searcher."""
        request, using = self.request, self.using
        if isinstance(using, HybridSearcher | RerankingSearcher):
            docids = [each.hit.docid for each in shown]
            sides = using.found_by(self.query, docids, k=request.reach, allowed=self.allowed)
            return [replace(each, found_by=sides[each.hit.docid]) for each in shown]
        return [
            ShownHit(  # several times as fast as `replace`
                each.rank,
                each.hit,
                each.title,
                each.metadata,
                each.snippet,
                {request.searcher: RankAndScore(each.rank, each.hit.score)},
                each.explanation,
                each.attention,
                each.signature,
            )
            for each in shown
        ]

    def with_explanations(
        self, shown: Sequence[ShownHit], documents: Sequence[Document]
    ) -> list[ShownHit]:
        """Add what scores are made of; one that is explained is the sum of its parts, exactly."""
        parts = self.using.explain(
            self.query, documents, k=self.request.reach, allowed=self.allowed
        )
        return [
            replace(each, explanation=part, hit=replace(each.hit, score=part.value))
            for each, part in zip(shown, parts, strict=True)
        ]


class Finder:
    """Finds and shows hits in one state of a collection."""

    def __init__(self, store: Store, searchers: Searchers, timed: Timed = untimed) -> None:
        self._store = store
        self._searchers = searchers
        self._timed = timed

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find hits `offset` + 1 to `offset` + k, with all that is shown of them."""
        rerank = bool(request.rerank)
        using = self._searchers.get(request.searcher, syntax=request.syntax, rerank=rerank)
        ranking = Ranking(request, using, allowed_rows(self._store, request.where))
        with self._timed(f"search {request.searcher}"):
            found = ranking.find()
        with self._timed("show"):
            hits, stored = self._page(ranking, found)
            shown = self._show(request, hits, stored)
        if shown and (request.explain or request.attention):
            with self._timed("explain"):
                shown = self._explain(ranking, shown, stored)
        return tuple(ranking.with_finders(shown))

    def answer(self, request: SearchRequest) -> ShownHits:
        """Find hits, what the query should perhaps have been, and what was not looked at."""
        return ShownHits(
            self.find(request),
            request.searcher,
            suggestion=self.suggest(request),
            incomplete=self._searchers.coverage(request.searcher),
        )

    def suggest(self, request: SearchRequest) -> str:
        """Write the query with words of the collection for those it lacks; empty without any."""
        lexical = self._searchers.lexical(syntax=request.syntax)
        unknown = lexical.unknown_terms(Query("", request.query))
        if not unknown:
            return ""
        counts = lexical.counts()
        return correct_query(
            request.query,
            unknown,
            analyser=self._searchers.analyser,
            scan=counts.terms_from,
            look_up=functools.partial(counts.document_frequencies, EVERYTHING),
        )

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits that were found among other shards'; what is gone is left out."""
        stored = find_newest(self._store, [hit.docid for hit in hits])
        there = [hit for hit in hits if hit.docid in stored]
        return tuple(self._show(request, there, stored))

    def snippets(self, query: str, *, syntax: bool = True, max_chars: int = 240) -> CutSnippet:
        """Return what cuts snippets for a query, also after the collection was closed."""
        weights = self._searchers.lexical(syntax=syntax).term_weights(Query("", query))
        analyser = self._searchers.analyser
        return lambda passage: make_snippet(
            passage, weights, analyser=analyser, max_chars=max_chars
        )

    def _page(
        self, ranking: Ranking, found: tuple[Hit, ...]
    ) -> tuple[tuple[Hit, ...], Mapping[str, StoredDocument]]:
        """Return the hits that were asked for, in their exact order, and documents by docid."""
        offset, using = ranking.request.offset, ranking.using
        if not isinstance(using, LexicalSearcher):
            return found[offset:], stored_hits(self._store, found[offset:])
        start = tie_start(found, offset)
        stored = stored_hits(self._store, found[start:])
        settled = using.settle_ties(ranking.query, found[start:], stored)
        return settled[offset - start :], stored

    def _show(
        self,
        request: SearchRequest,
        hits: Sequence[Hit],
        stored: Mapping[str, StoredDocument],
    ) -> list[ShownHit]:
        own = [stored[hit.docid] for hit in hits]
        best = self._searchers.passages.best(
            request.searcher,
            Query("", request.query),
            {each.row: each.document for each in own},
            syntax=request.syntax,
            besides=request.besides,
        )
        signatures = self._signatures(own) if request.distinct else {}
        most, shown = request.snippet_chars, []
        cut = self.snippets(request.query, syntax=request.syntax, max_chars=most)
        pairs = zip(hits, own, strict=True)
        for rank, (hit, found) in enumerate(pairs, start=request.offset + 1):
            passage, document = best[found.row], found.document
            snippet = cut(passage) if passage and most else None
            if passage and (place := find_place(document, passage, within=_marked(snippet))):
                passage = replace(passage, place=place)
            hit = Hit(hit.docid, hit.score, passage)
            signature = signatures.get(found.row, b"")
            title, metadata = document.title, document.metadata
            shown.append(ShownHit(rank, hit, title, metadata, snippet, signature=signature))
        return shown

    def _signatures(self, own: Sequence[StoredDocument]) -> dict[int, bytes]:
        """Return what tells near-identical documents; made here where none was stored."""
        stored = self._store.signatures([each.row for each in own])
        return {
            each.row: stored[each.row]
            if each.row in stored
            else make_signature(document_texts(each.document))
            for each in own
        }

    def _explain(
        self,
        ranking: Ranking,
        shown: Sequence[ShownHit],
        stored: Mapping[str, StoredDocument],
    ) -> list[ShownHit]:
        request, told = ranking.request, list(shown)
        documents = [stored[each.hit.docid].document for each in shown]
        if request.explain:
            told = ranking.with_explanations(shown, documents)
        if request.attention:
            looked = self._searchers.attention(request.searcher, ranking.query, documents)
            told = [replace(each, attention=look) for each, look in zip(told, looked, strict=True)]
        return told


def _marked(snippet: Snippet | None) -> Span | None:
    """Return the stretch of a field from the first to the last highlight; None without any."""
    if snippet is None or not snippet.highlights:
        return None
    start, marks = snippet.span.start, snippet.highlights
    return Span(start + marks[0].start, start + marks[-1].end)
