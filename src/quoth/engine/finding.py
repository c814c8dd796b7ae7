"""Find hits with everything that is shown of them: the one path of a search.

Whoever searches (Python, the command line, the server, a shard for its port) comes through here.
All is read in one snapshot of the store, documents and passages of all hits in one query each, so a
document that a writer changes meanwhile is seen as it was or as it is, never half. Scores are those
of the ranking; nothing is explained unless asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quoth.collection.store import Store
from quoth.collection.store_reader import StoredDocument
from quoth.compiled import quick
from quoth.engine.lookup import HitDocuments, allowed_rows, find_newest, sign, stored_hits
from quoth.engine.passages import BY_VECTORS
from quoth.engine.searchers import Searchers
from quoth.interruption import check_interruption
from quoth.records import (
    Attention,
    Document,
    Hit,
    Part,
    Passage,
    Query,
    RankAndScore,
    Scalar,
    SearchRequest,
    ShownHit,
    ShownHits,
    Snippet,
    Span,
)
from quoth.search.duplicates import DistinctPage, choose_distinct
from quoth.search.hybrid.searcher import HybridSearcher
from quoth.search.lexical.searcher import LexicalSearcher
from quoth.search.lexical.suggestions import correct_query
from quoth.search.lexical.ties import tie_start
from quoth.search.rerank import RerankingSearcher
from quoth.search.searcher import Searcher, Timed, untimed
from quoth.search.snippets import make_snippet
from quoth.text.places import can_have_place, find_place
from quoth.vocabulary.term_counts import EVERYTHING

_Content = tuple[Hit, str, Mapping[str, Scalar | tuple[Scalar, ...]], Snippet | None, bytes]
"""Hit with passage, title, metadata, snippet and signature."""

CutSnippet = Callable[[Passage], Snippet]
"""Cuts what is shown of a passage, around the words of a query."""

_TEXTS = 5
"""Documents that are asked how a correction is written."""

_MAX_CORRECTIONS = 1_000

_make_hit, _make_passage = quick(Hit), quick(Passage)
_make_rank, _make_shown = quick(RankAndScore), quick(ShownHit)

STEADY = ("lexical", "dense")
"""Searchers whose k best hits are the first of their 2k best; decoding goes by k."""


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

    def find(self, k: int | None = None) -> tuple[Hit, ...]:
        """Find the k best hits; None: to the end of the page that was asked for."""
        k = self.request.reach if k is None else k
        found = self.using.search([self.query], k=k, allowed=self.allowed)
        return found.hits[self.query.qid]

    def finders(
        self, hits: Sequence[Hit], ranks: Sequence[int]
    ) -> Sequence[Mapping[str, RankAndScore]]:
        """Say who found each hit: the sides of a fused search, or the one searcher."""
        request, using = self.request, self.using
        if isinstance(using, HybridSearcher | RerankingSearcher):
            docids = [hit.docid for hit in hits]
            sides = using.found_by(self.query, docids, k=request.reach, allowed=self.allowed)
            return [sides[docid] for docid in docids]
        name = request.searcher
        pairs = zip(hits, ranks, strict=True)
        return [{name: _make_rank(rank, hit.score)} for hit, rank in pairs]

    def with_finders(self, shown: Sequence[ShownHit]) -> list[ShownHit]:
        """Add who found each hit."""
        found = self.finders([each.hit for each in shown], [each.rank for each in shown])
        return [replace(each, found_by=own) for each, own in zip(shown, found, strict=True)]

    def explain(self, documents: Sequence[Document]) -> tuple[Part, ...]:
        """Say what the scores of documents that were found are made of."""
        k = self.request.reach
        return self.using.explain(self.query, documents, k=k, allowed=self.allowed)

    def with_explanations(
        self, shown: Sequence[ShownHit], documents: Sequence[Document]
    ) -> list[ShownHit]:
        """Add what scores are made of; one that is explained is the sum of its parts, exactly."""
        parts = self.explain(documents)
        return [
            replace(each, explanation=part, hit=replace(each.hit, score=part.value))
            for each, part in zip(shown, parts, strict=True)
        ]


class KeptRanking:
    """A ranking of which ever more may be looked at; what it ranks anyway is searched for once."""

    def __init__(self, ranking: Ranking, *, margin: int = 2) -> None:
        """Look at a ranking; the second time, at so many times as many hits as are asked for."""
        self._ranking = ranking
        self._margin = margin
        self._found: tuple[Hit, ...] = ()
        self._ranked = 0

    def best(self, k: int) -> tuple[Hit, ...]:
        """Return the k best hits, fewer where there are no more."""
        if k > self._ranked:
            self._ranked = self._depth(k)
            self._found = self._ranking.find(self._ranked)
        return self._found[:k]

    def know(self, k: int, found: Sequence[Hit]) -> None:
        """Take the k best hits from who has searched for them in another way."""
        self._ranked, self._found = k, tuple(found)

    def known(self, k: int) -> tuple[Hit, ...]:
        """Return as many of the k best hits as were found so far."""
        return self._found[:k]

    def _depth(self, k: int) -> int:
        """How many hits to search for: what is ranked anyway, and a margin the second time."""
        using = self._ranking.using
        if isinstance(using, HybridSearcher | RerankingSearcher):
            return using.ranked(k)
        if isinstance(using, LexicalSearcher) and not self._ranked:
            return using.ranked(self._ranking.query, k)
        return self._margin * k if self._ranked and using.name in STEADY else k


class Finder:
    """Finds and shows hits in one state of a collection."""

    def __init__(self, store: Store, searchers: Searchers, timed: Timed = untimed) -> None:
        self._store = store
        self._searchers = searchers
        self._timed = timed

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find hits `offset` + 1 to `offset` + k, with all that is shown of them."""
        ranking = self._rank(request)
        with self._timed(f"search {request.searcher}"):
            found = ranking.find()
        with self._timed("show"):
            hits, stored = self._page(ranking, found)
            ranks = range(request.offset + 1, request.offset + 1 + len(hits))
            return self._tell(ranking, hits, stored, ranks=ranks)

    def find_distinct(self, request: SearchRequest, *, least: float) -> tuple[ShownHit, ...]:
        """Find hits, those that are at least so similar together; only the page is shown."""
        ranking = self._rank(request)
        kept, using = KeptRanking(ranking), ranking.using
        documents = HitDocuments(self._store)

        def best(k: int) -> Sequence[Hit]:
            with self._timed(f"search {request.searcher}"):
                found = kept.best(k)
            if not isinstance(using, LexicalSearcher):
                return found
            # A page that has copies often has to be filled more than once.
            stored = documents.read(found if k == request.reach else kept.known(2 * k))
            return using.settle_ties(ranking.query, found, stored)

        def signatures(hits: Sequence[Hit]) -> list[bytes]:
            if not isinstance(using, LexicalSearcher):  # whose hits were read for their ties
                documents.look_up(kept.known(4 * request.reach))
            return documents.signatures(hits)

        page = choose_distinct(request, best, signatures=signatures, least=least)
        with self._timed("show"):
            hits = [each.best for each in page.groups]
            if page.k != request.k or request.offset:
                ranking = replace(ranking, request=replace(request, offset=0, k=page.k))
            return self._tell(
                ranking,
                hits,
                documents.read(hits),
                ranks=[each.rank for each in page.groups],
                others=[tuple(each.others) for each in page.groups],
                after=request.offset,
            )

    def answer(self, request: SearchRequest, *, least: float | None) -> ShownHits:
        """Find hits, at least so similar ones together, and say what else there is to know."""
        found = self.find(request) if least is None else self.find_distinct(request, least=least)
        return ShownHits(
            found,
            request.searcher,
            suggestion=self.suggest(request),
            incomplete=self._searchers.coverage(request.searcher),
        )

    def _rank(self, request: SearchRequest) -> Ranking:
        rerank = bool(request.rerank)
        using = self._searchers.get(
            request.searcher, syntax=request.syntax, rerank=rerank, feedback=request.feedback
        )
        return Ranking(request, using, allowed_rows(self._store, request.where))

    def suggest(self, request: SearchRequest) -> str:
        """Write the query with words of the collection for those it lacks; empty without any."""
        lexical = self._searchers.lexical(syntax=request.syntax)
        unknown = lexical.unknown_terms(Query("", request.query))
        if not unknown:
            return ""
        searchers, has_encoder = self._searchers, request.searcher in BY_VECTORS
        known, asked = searchers.corrections, (request.query, request.syntax, has_encoder)
        if asked not in known:  # it is asked again for every page
            counts = lexical.counts()
            if len(known) >= _MAX_CORRECTIONS:
                known.clear()
            known[asked] = correct_query(
                request.query,
                unknown,
                analyser=searchers.analyser,
                scan=counts.terms_from,
                look_up=functools.partial(counts.document_frequencies, EVERYTHING),
                is_word=searchers.dense_side().has_word if has_encoder else lambda _word: False,
                holding=self._texts_with,
            )
        return known[asked]

    def _texts_with(self, word: str) -> list[str]:
        """Return passages in which a word stands, of the first documents that hold it."""
        query = Query("", word)
        found = self._searchers.lexical(syntax=False).search([query], k=_TEXTS, allowed=None)
        stored = stored_hits(self._store, found.hits[query.qid])
        documents = {each.row: each.document for each in stored.values()}
        chosen = self._searchers.passages.best("lexical", query, documents, syntax=False)
        return [passage.text for passage in chosen.values() if passage is not None]

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits that were found among other shards'; what is gone is left out."""
        stored = find_newest(self._store, [hit.docid for hit in hits])
        there = [hit for hit in hits if hit.docid in stored]
        return tuple(
            ShownHit(rank, *own[:4], signature=own[4])
            for rank, own in enumerate(self._contents(request, there, stored), request.offset + 1)
        )

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

    def _tell(
        self,
        ranking: Ranking,
        hits: Sequence[Hit],
        stored: Mapping[str, StoredDocument],
        *,
        ranks: Sequence[int],
        others: Sequence[tuple[str, ...]] | None = None,
        after: int | None = None,
    ) -> tuple[ShownHit, ...]:
        """Show hits with all that was asked for; they are numbered as ranked, or `after` a number.

        One that is explained scores the sum of its parts.
        """
        request = ranking.request
        explanations, looks = self._explain(ranking, [stored[hit.docid].document for hit in hits])
        if request.explain:
            pairs = zip(hits, explanations, strict=True)
            hits = [Hit(hit.docid, part.value) for hit, part in pairs]
        found_by = ranking.finders(hits, ranks)
        contents = self._contents(request, hits, stored)
        shown = []
        for at, (hit, title, metadata, snippet, signature) in enumerate(contents):
            shown.append(
                _make_shown(
                    ranks[at] if after is None else after + at + 1,
                    hit,
                    title,
                    metadata,
                    snippet,
                    found_by[at],
                    explanations[at] if explanations else None,
                    looks[at] if looks else None,
                    signature,
                    others[at] if others else (),
                )
            )
        return tuple(shown)

    def _contents(
        self, request: SearchRequest, hits: Sequence[Hit], stored: Mapping[str, StoredDocument]
    ) -> Iterator[_Content]:
        """Yield what is shown of each hit, whoever found it."""
        own = [stored[hit.docid] for hit in hits]
        searchers, query, syntax = self._searchers, Query("", request.query), request.syntax
        chosen = searchers.passages.choose(
            request.searcher,
            query,
            {each.row: each.document for each in own},
            syntax=syntax,
            besides=request.besides,
        )
        signatures = self._signatures(own) if request.distinct else {}
        snippets = searchers.passages.snippets(
            query, chosen, syntax=syntax, max_chars=request.snippet_chars
        )
        for hit, found in zip(hits, own, strict=True):
            check_interruption()
            own_passage, document = chosen[found.row], found.document
            passage, snippet = own_passage and own_passage[0], snippets.get(found.row)
            if passage and can_have_place(document):
                place = find_place(document, passage, within=_marked(snippet))
                passage = _at_place(passage, place) if place else passage
            signature = signatures.get(found.row, b"")
            shown = _make_hit(hit.docid, hit.score, passage)
            yield shown, document.title, document.metadata, snippet, signature

    def _signatures(self, own: Sequence[StoredDocument]) -> dict[int, bytes]:
        """Return what tells near-identical documents; made here where none was stored."""
        stored = self._store.signatures([each.row for each in own])
        return {
            each.row: stored[each.row] if each.row in stored else sign(each.document)
            for each in own
        }

    def _explain(
        self, ranking: Ranking, documents: Sequence[Document]
    ) -> tuple[Sequence[Part], Sequence[Attention | None]]:
        """Say what hits are made of and where the encoder looked; nothing where nobody asked."""
        request = ranking.request
        if not documents or not (request.explain or request.attention):
            return (), ()
        with self._timed("explain"):
            parts = ranking.explain(documents) if request.explain else ()
            if not request.attention:
                return parts, ()
            return parts, self._searchers.attention(request.searcher, ranking.query, documents)


def _at_place(passage: Passage, place: str) -> Passage:
    """Add where a passage is to be found."""
    span, text, instance = passage.span, passage.text, passage.instance
    return _make_passage(passage.docid, passage.field, span, text, instance, place)


def number_distinct(
    shown: Sequence[ShownHit], page: DistinctPage, *, after: int
) -> tuple[ShownHit, ...]:
    """Number the hits of a page from the one before it on, and add their other places."""
    pairs = zip(shown, page.groups, strict=True)
    return tuple(
        replace(each, rank=rank, also=tuple(group.others))
        for rank, (each, group) in enumerate(pairs, start=after + 1)
    )


def _marked(snippet: Snippet | None) -> Span | None:
    """Return the stretch of a field from the first to the last highlight; None without any."""
    if snippet is None or not snippet.highlights:
        return None
    start, marks = snippet.span.start, snippet.highlights
    return Span(start + marks[0].start, start + marks[-1].end)
