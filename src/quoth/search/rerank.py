"""Rerank a searcher's best hits by how likely their passages make the query.

A query generator gives log p(query | passage), the query likelihood (Ponte and Croft 1998; as a
reranker with a pretrained model, Sachan et al. 2022). It reads what it was trained to read: the
title and one passage. Both scores are brought to 0 … 1 over the hits reranked, query by query, and
mixed:

    score = (1 - weight) · first + weight · likelihood

Hits below the depth are not read and come after it in the order they had. Whatever searches first,
the generator is loaded when there is a first hit to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from quoth.collection.store import Store
from quoth.errors import IndexMoved
from quoth.records import Document, Hit, Part, Passage, Query, Run
from quoth.search.hybrid.fusion import min_max
from quoth.search.rerank_config import RerankConfig
from quoth.search.searcher import Searcher
from quoth.text.query_syntax import parse_query

"""Fields that hold a document's title: the first that a document has is read with its passage."""


class QueryScorer(Protocol):
    """What says how likely passages make queries; `QueryGenerator` does."""

    def score(self, queries: Sequence[str], passages: Sequence[str]) -> Any:
        """Return log p(query | passage) of pairs, as an array."""
        ...


ChoosePassages = Callable[[Query, Mapping[int, Document]], Mapping[int, Passage | None]]
"""Chooses what is read of documents, by row, for a query."""


class RerankingSearcher:
    """Puts the best hits of another searcher into a new order; it keeps no index of its own."""

    def __init__(
        self,
        first: Searcher,
        store: Store,
        *,
        config: RerankConfig,
        load_scorer: Callable[[], QueryScorer],
        choose: ChoosePassages,
        syntax: bool,
    ) -> None:
        """Wrap a searcher; with `syntax`, + - quotes and field: in queries are no text to score."""
        self.name = f"{first.name}-reranked"
        self._first = first
        self._store = store
        self._config = config
        self._load_scorer = load_scorer
        self._choose = choose
        self._syntax = syntax
        self._scorer: QueryScorer | None = None
        self._last: dict[_Pair, float] = {}

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query by the mixed score; passages of all are read."""
        found = self._search_first(queries, k=k, allowed=allowed)
        read = self._read(queries, found)
        hits: dict[str, tuple[Hit, ...]] = {}
        for query in queries:
            own = found[query.qid]
            standings = mix(own, read[query.qid], weight=self._config.weight)
            ranked = [
                Hit(hit.docid, standing.score, hit.passage)
                for hit, standing in zip(own, standings, strict=True)
            ]
            hits[query.qid] = tuple(sorted(ranked, key=lambda hit: (-hit.score, hit.docid))[:k])
        return Run(self.name, hits)

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say what each score is made of; k and rows as in the search it explains."""
        found = self._search_first([query], k=k, allowed=allowed)
        read = self._read([query], found)[query.qid]
        hits = found[query.qid]
        standings = mix(hits, read, weight=self._config.weight)
        by_docid = {hit.docid: each for hit, each in zip(hits, standings, strict=True)}
        return tuple(
            self._explain_one(by_docid.get(document.docid), depth=len(read))
            for document in documents
        )

    def close(self) -> None:
        """Nothing is open here; the first searcher is closed by whoever made it."""

    def _search_first(
        self, queries: Sequence[Query], *, k: int, allowed: set[int] | None
    ) -> Mapping[str, tuple[Hit, ...]]:
        return self._first.search(queries, k=max(k, self._config.depth), allowed=allowed).hits

    def _read(
        self, queries: Sequence[Query], found: Mapping[str, tuple[Hit, ...]]
    ) -> dict[str, list[float]]:
        """Return log p(query | passage) of each query's best hits, all read in one go."""
        pairs = {query.qid: self._pairs(query, found[query.qid]) for query in queries}
        flat = [pair for own in pairs.values() for pair in own]
        known = self._last
        missing = [pair for pair in dict.fromkeys(flat) if pair not in known]
        if missing:
            known = known | dict(zip(missing, self._score(missing), strict=True))
        self._last = {pair: known[pair] for pair in flat} if len(queries) == 1 else {}
        return {qid: [known[pair] for pair in own] for qid, own in pairs.items()}

    def _pairs(self, query: Query, hits: Sequence[Hit]) -> list[_Pair]:
        """Return what is read for each of a query's best hits."""
        docids = [hit.docid for hit in hits[: self._config.depth]]
        row_by_docid = self._store.rows(docids)
        stored = self._store.documents(sorted(row_by_docid.values()))
        if len(stored) < len(docids):
            raise IndexMoved("a writer removed a document during a search; search again")
        chosen = self._choose(query, stored)
        asked = self._words(query)
        rows = (row_by_docid[docid] for docid in docids)
        return [_Pair(asked, passage_text(stored[row], chosen[row])) for row in rows]

    def _words(self, query: Query) -> str:
        return wanted_text(query.text, self._store.fields()) if self._syntax else query.text

    def _score(self, pairs: Sequence[_Pair]) -> list[float]:
        if self._scorer is None:
            self._scorer = self._load_scorer()
        scores = self._scorer.score(
            [pair.query for pair in pairs], [pair.passage for pair in pairs]
        )
        return [float(each) for each in scores]

    def _explain_one(self, standing: MixedStanding | None, *, depth: int) -> Part:
        first = f"first search ({self._first.name})"
        if standing is None:
            return Part(self.name, 0.0, (Part(f"{first}: not found", 0.0),))
        head = f"{first}: {standing.first:.3f}"
        if standing.log_likelihood is None:
            label = f"{head}, rank {standing.rank}, below the {depth} that are reranked"
            return Part(self.name, standing.score, (Part(label, standing.score),))
        weight = self._config.weight
        parts = (
            Part(
                f"{head} scaled to {standing.scaled_first:.2f}, weight {1 - weight:.2f},"
                f" rank {standing.rank}",
                (1 - weight) * standing.scaled_first,
            ),
            Part(
                f"log p(query | passage): {standing.log_likelihood:.1f} scaled to"
                f" {standing.scaled_likelihood:.2f}, weight {weight:.2f}",
                weight * standing.scaled_likelihood,
            ),
        )
        return Part(self.name, standing.score, parts)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A query's words and the text that is read for them."""

    query: str
    passage: str


@dataclass(frozen=True, slots=True)
class MixedStanding:
    """What the first search and the likelihood say of one hit; no likelihood below the depth."""

    rank: int
    first: float
    scaled_first: float
    log_likelihood: float | None
    scaled_likelihood: float
    score: float


def mix(
    hits: Sequence[Hit], log_likelihoods: Sequence[float], *, weight: float
) -> tuple[MixedStanding, ...]:
    """Mix the scores of the first search with the likelihoods of as many of its best hits.

    Below those, scores fall from the least that a reranked hit can have by the same scale.

    >>> hits = [Hit("a", 9.0), Hit("b", 5.0), Hit("c", 1.0), Hit("d", 0.0)]
    >>> [each.score for each in mix(hits, [-30.0, -10.0, -20.0], weight=0.25)]
    [0.75, 0.625, 0.125, -0.125]
    """
    depth = len(log_likelihoods)
    first = min_max([hit.score for hit in hits[:depth]])
    second = min_max(log_likelihoods)
    least = (1 - weight) * first.apply(first.offset)
    standings = []
    for rank, hit in enumerate(hits, start=1):
        if rank > depth:
            below = (hit.score - first.offset) / (first.width or 1.0)
            standings.append(MixedStanding(rank, hit.score, below, None, 0.0, least + below))
            continue
        found = log_likelihoods[rank - 1]
        scaled, likely = first.apply(hit.score), second.apply(found)
        score = (1 - weight) * scaled + weight * likely
        standings.append(MixedStanding(rank, hit.score, scaled, found, likely, score))
    return tuple(standings)


def passage_text(document: Document, passage: Passage | None) -> str:
    r"""Join title and passage as the query generator reads them; without passage, all fields.

    >>> owls = Document("d", {"title": ("Owls",), "text": ("They hunt at night.",)})
    >>> passage_text(owls, None)
    'Owls\nThey hunt at night.'
    """
    if passage is None:
        return "\n".join(" ".join(texts) for texts in document.fields.values() if any(texts))
    if passage.field == document.title_field or not document.title_field:
        return passage.text
    return document.title + "\n" + passage.text


def wanted_text(text: str, fields: Sequence[str]) -> str:
    """Return the words that a query with signs asks for, without the signs.

    >>> wanted_text('title:owl -barn "night bird" +dusk', ["title"])
    'owl night bird dusk'
    >>> wanted_text("state-of-the-art: why?", ["title"])
    'state-of-the-art: why?'
    """
    clauses = parse_query(text, fields=fields)
    return " ".join(each.text for each in clauses if each.occur != "must_not")
