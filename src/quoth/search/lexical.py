"""BM25 search over all fields, exact at all times.

A term counts where it stands anywhere in the document, and again, with a smaller weight, in each
field that is not the body; docs/benchmarks.md compares this with title and text joined.

tantivy counts removed documents until it merges their segments away. While there are any, it only
proposes: idf is corrected by boosts, candidates are scored by `lexical_score` with the exact
statistics, and more are fetched until no document outside them can belong among the best. So scores
never depend on history.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quoth.collection.store import Store
from quoth.errors import IndexMoved
from quoth.index.lexical import Boost, LexicalIndex, Scored
from quoth.index.lexical_query import Clause, LexicalQuery, scale
from quoth.records import Document, Hit, Part, Query, Run
from quoth.search.lexical_config import LexicalConfig
from quoth.search.lexical_score import QueryStatistics, contributions, explain_parts, score
from quoth.search.lexical_upkeep import STATISTICS_FILE, LexicalUpkeep, analyse, open_index
from quoth.search.searcher import Progress, ignore_progress
from quoth.text.query_syntax import Occur, parse_query, plain_query
from quoth.text.words import Analyser
from quoth.vocabulary.statistics import EVERYTHING, FieldTerms, Statistics
from quoth.vocabulary.weighting import inverse_document_frequency

_MOVED = "a writer replaced the lexical index during a search; search again"
_MAX_KNOWN_DOCIDS = 200_000
_ROUNDING = 1.0 + 1e-5  # tantivy computes in single precision


class LexicalSearcher:
    """BM25 search over one collection."""

    name = "lexical"

    def __init__(
        self, folder: Path, store: Store, *, analyser: Analyser, config: LexicalConfig, syntax: bool
    ) -> None:
        """Search what lies in `folder`; with `syntax`, queries may use + - quotes and field:."""
        self.folder = folder
        self._store = store
        self._analyser = analyser
        self._config = config
        self._syntax = syntax
        self._docids: dict[int, str] = {}
        self._anywhere: tuple[tuple[str, float], ...] | None = None
        self._index: LexicalIndex | None = None
        self._statistics: Statistics | None = None

    # Searching -------------------------------------------------------------------------------

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query among the allowed rows (None: all)."""
        return Run(self.name, {each.qid: self._search_one(each, k, allowed) for each in queries})

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say, for each document, what its score is made of; the parts add up to it."""
        parsed = self.parse(query)
        statistics = self._query_statistics(parsed)
        return tuple(
            explain_parts(list(contributions(parsed, self.analyse(document), statistics)))
            for document in documents
        )

    def score(self, queries: Sequence[Query], documents: Sequence[Document]) -> tuple[float, ...]:
        """Score each document for its own query as if it were in the collection; 0 for no match."""
        pairs = zip(queries, documents, strict=True)
        return tuple(self.explain(query, [document])[0].value for query, document in pairs)

    def counts(self) -> Statistics:
        """Give the collection's statistics, in the state that is searched."""
        return self._counted()

    def parse(self, query: Query) -> LexicalQuery:
        """Turn what the user typed into weighted clauses over terms."""
        fields = self._opened().fields
        asked = parse_query(query.text, fields=fields) if self._syntax else plain_query(query.text)
        if self._anywhere is None:
            self._anywhere = self._config.weights(fields)
        anywhere = self._anywhere
        repeats: Counter[tuple[tuple[str, ...], str | None, Occur]] = Counter()
        for part in asked:
            terms = self._analyser.terms(part.text)
            groups = [tuple(terms)] if part.is_phrase and terms else [(term,) for term in terms]
            repeats.update((group, part.field, part.occur) for group in groups)
        return LexicalQuery(
            tuple(
                Clause(group, scale(anywhere if name is None else ((name, 1.0),), times), occur)
                for (group, name, occur), times in repeats.items()
            )
        )

    def term_weights(self, query: Query) -> dict[str, float]:
        """Give the idf of each wanted term, to choose passages and highlights by."""
        terms = {term for clause in self.parse(query).wanted for term in clause.terms}
        counted = self._counted()
        found = counted.document_frequencies(EVERYTHING, terms)
        total = counted.num_documents
        return {
            term: inverse_document_frequency(found.get(term, 0), num_documents=total)
            for term in terms
        }

    def analyse(self, document: Document) -> FieldTerms:
        """Turn a document into terms, field by field."""
        return analyse(document, self._analyser)

    def close(self) -> None:
        """Release what was opened."""
        if self._statistics is not None:
            self._statistics.close()
        self._index = self._statistics = self._anywhere = None
        self._docids = {}

    def is_current(self, change: int) -> bool:
        """Whether index and statistics on disk hold everything up to a change of this history."""
        index = LexicalIndex.open(self.folder)
        wanted = (change, self._store.log_digest(change))
        if index is None or not index.is_settled:
            return False
        if (index.artifact.change, index.artifact.config["log"]) != wanted:
            return False
        with contextlib.closing(Statistics.open(self.folder / STATISTICS_FILE)) as counted:
            return (counted.change, counted.basis.get("log")) == wanted

    def describe(self) -> dict[str, Any]:
        """Say what the index holds and how it was built."""
        index = self._opened()
        return {
            "change": index.artifact.change,
            "documents": index.num_documents,
            "removed_but_counted": index.num_dead,
            "fields": list(index.fields),
            "analyser": index.artifact.config["analyser"],
            "terms": self._counted().num_terms,
        }

    def refresh(self) -> None:
        """Look at the newest state on disk from now on."""
        self.close()

    # Upkeep ----------------------------------------------------------------------------------

    def catch_up(self, store: Store, *, progress: Progress) -> None:
        """Apply all changes of the store that the index does not hold yet."""
        self._upkeep(store, progress).catch_up()

    def rebuild(self, store: Store, *, progress: Progress) -> None:
        """Build index and statistics anew from the store alone."""
        self._upkeep(store, progress).rebuild()

    def find_damage(self, store: Store, *, progress: Progress) -> tuple[str, ...]:
        """Check every checksum, and index and statistics against the store."""
        return tuple(self._upkeep(store, progress).find_damage())

    def num_behind(self, store: Store) -> int:
        """Count the changes that catching up would bring."""
        return self._upkeep(store, ignore_progress).num_behind()

    def _upkeep(self, store: Store, progress: Progress) -> LexicalUpkeep:
        self.close()
        return LexicalUpkeep(
            self.folder,
            store,
            analyser=self._analyser,
            compact_share=self._config.compact_share,
            progress=progress,
        )

    # Inner workings --------------------------------------------------------------------------

    def _search_one(self, query: Query, k: int, allowed: set[int] | None) -> tuple[Hit, ...]:
        parsed = self.parse(query)
        index = self._opened()
        top = self._top_exact if index.num_dead else self._top_clean
        scored = top(parsed, k, allowed)
        docids = self._name([row for row, _value in scored])
        hits = [Hit(docids[row], value) for row, value in scored]
        hits.sort(key=lambda hit: (-hit.score, hit.docid))
        return tuple(hits[:k])

    def _name(self, rows: Sequence[int]) -> dict[int, str]:
        """Find docids by row; a row's docid never changes, so each is looked up once."""
        if len(self._docids) > _MAX_KNOWN_DOCIDS:
            self._docids = {}
        unknown = [row for row in rows if row not in self._docids]
        if unknown:
            found = self._store.docids(unknown)
            if len(found) < len(unknown):
                raise IndexMoved(_MOVED)
            self._docids.update(found)
        return self._docids

    def _top_clean(self, query: LexicalQuery, k: int, allowed: set[int] | None) -> list[Scored]:
        return self._opened().top_k(query, k, allowed=allowed)

    def _top_exact(self, query: LexicalQuery, k: int, allowed: set[int] | None) -> list[Scored]:
        """Find the k best rows by exact statistics, with ties, while the index counts dead ones."""
        statistics = self._query_statistics(query)
        boost, slack = self._corrections(query, statistics)
        depth = k
        while True:
            proposed = self._opened().top_k(query, depth, allowed=allowed, boost=boost)
            scored = self._score_exactly(query, proposed, statistics)
            # A document that was not proposed scores at most `slack` times the last proposal.
            if len(proposed) < depth or scored[k - 1][1] > proposed[-1][1] * slack:
                return scored
            depth *= 4

    def _score_exactly(
        self, query: LexicalQuery, proposed: Sequence[Scored], statistics: QueryStatistics
    ) -> list[Scored]:
        documents = self._store.documents([row for row, _value in proposed])
        if len(documents) < len(proposed):
            raise IndexMoved(_MOVED)
        scored = [
            (row, score(query, self.analyse(document), statistics))
            for row, document in documents.items()
        ]
        return sorted(scored, key=lambda pair: -pair[1])

    def _corrections(self, query: LexicalQuery, statistics: QueryStatistics) -> tuple[Boost, float]:
        """Give the boosts that mend tantivy's idf, and how far its length norm can still be off."""
        index, slack = self._opened(), _ROUNDING
        used: dict[str, QueryStatistics] = {}
        for view, terms in _terms_by_view(query).items():
            states = (index.state(view, term) for term in terms)
            state = next(filter(None, states), None)
            if state is None:  # no term of the query is left in this view
                continue
            slack = max(slack, _ROUNDING * statistics.average_lengths[view] / state.average_length)
            counts = {term: index.document_frequency(view, term) for term in terms}
            used[view] = QueryStatistics(state.num_documents, {}, {view: counts})

        def boost(clause: Clause, view: str) -> float:
            if view not in used:
                return 1.0
            return statistics.idf(view, clause.terms) / used[view].idf(view, clause.terms)

        return boost, slack

    def _query_statistics(self, query: LexicalQuery) -> QueryStatistics:
        counted = self._counted()
        return QueryStatistics(
            counted.num_documents,
            counted.average_lengths(),
            {
                view: counted.document_frequencies(view, terms)
                for view, terms in _terms_by_view(query).items()
            },
        )

    def _opened(self) -> LexicalIndex:
        if self._index is None:
            self._index = open_index(self.folder, self._analyser)
        return self._index

    def _counted(self) -> Statistics:
        if self._statistics is None:
            self._statistics = Statistics.open(self.folder / STATISTICS_FILE)
            self._statistics.pin()
        return self._statistics


def _terms_by_view(query: LexicalQuery) -> dict[str, set[str]]:
    terms: dict[str, set[str]] = {}
    for view, term in query.terms():
        terms.setdefault(view, set()).add(term)
    return terms
