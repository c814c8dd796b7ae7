"""BM25 search over all fields, exact at all times.

A term counts where it stands anywhere in the document, and again, with a smaller weight, in each
field that is not the body; docs/benchmarks.md compares this with title and text joined.

tantivy counts removed documents until it merges their segments away, and lengths roughly from then
on; a shard's index knows its own documents only. While its counts are not those that hold
(`agreement.py`), it only proposes: idf is corrected by boosts, candidates are scored by `score.py`
with the exact statistics, and more are fetched until no document outside them can belong among the
best. So scores depend neither on history nor on shards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quoth.collection.store import Store
from quoth.collection.store_reader import StoredDocument
from quoth.compiled import quick
from quoth.errors import IndexMoved
from quoth.index.lexical.index import MARGIN, LexicalIndex, Scored
from quoth.index.lexical.passage_terms import PassageTerms, PassageTermsFile
from quoth.index.lexical.query import LexicalQuery
from quoth.interruption import check_interruption
from quoth.records import Document, Hit, Part, Query, Run
from quoth.search.lexical.agreement import CountAgreement
from quoth.search.lexical.analysing import analyse
from quoth.search.lexical.by_postings import PostingsRanking
from quoth.search.lexical.checking import find_wrong_scores
from quoth.search.lexical.config import LexicalConfig
from quoth.search.lexical.exact import MOVED, ExactScorer
from quoth.search.lexical.opening import open_index
from quoth.search.lexical.parsing import make_query
from quoth.search.lexical.pinned import PinnedStatistics
from quoth.search.lexical.records import open_records
from quoth.search.lexical.score import QueryStatistics, contributions, explain_parts
from quoth.search.lexical.ties import LEAST_STEP, has_ties, near_ties, settle
from quoth.search.lexical.upkeep import STATISTICS_FILE, LexicalUpkeep
from quoth.search.searcher import Progress, ignore_progress
from quoth.search.shard_questions import ShardHits, as_columns
from quoth.text.query_syntax import read_query
from quoth.text.words import Analyser
from quoth.vocabulary.statistics import Statistics
from quoth.vocabulary.term_counts import EVERYTHING, FieldTerms

_MAX_KNOWN_DOCIDS = 200_000
_make_hit = quick(Hit)


class LexicalSearcher:
    """BM25 search over one collection."""

    name = "lexical"

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        analyser: Analyser,
        config: LexicalConfig,
        syntax: bool,
        exchanged: Path | None = None,
        workers: int = 0,
    ) -> None:
        """Search what lies in `folder`; with `syntax`, queries may use + - quotes and field:.

        A shard scores with the statistics of all shards, in the file `exchanged`.
        """
        self.folder = folder
        self._store = store
        self._analyser = analyser
        self._config = config
        self._syntax = syntax
        self._exchanged = exchanged
        self._workers = workers
        self._exact = ExactScorer(store, analyser)
        self._docids: dict[int, str] = {}
        self._anywhere: tuple[tuple[str, float], ...] | None = None
        self._index: LexicalIndex | None = None
        self._agreed: CountAgreement | None = None
        self._ranking: PostingsRanking | None = None
        self._statistics: PinnedStatistics | None = None
        self._weighed: tuple[str, dict[str, float]] | None = None
        self._parsed: tuple[str, LexicalQuery] | None = None
        self._records: PassageTermsFile | None = None

    # Searching -------------------------------------------------------------------------------

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query among the allowed rows (None: all)."""
        return Run(self.name, {each.qid: self._search_one(each, k, allowed) for each in queries})

    def ranked(self, query: Query, k: int) -> int:
        """How many hits can be had where k are asked for: none costs a search more."""
        return k + MARGIN if self._costs_no_more(self.parse(query)) else k

    def propose(
        self, queries: Sequence[Query], *, k: int, allowed: set[int] | None
    ) -> tuple[ShardHits, ...]:
        """Find the k best documents, and one more, by scores that the index can give at once.

        They come with bounds on what `settle` says of them; where there is no difference, they are
        the k best of `search`.
        """
        return tuple(self._propose_one(each, k, allowed) for each in queries)

    def query_statistics(self, queries: Sequence[Query]) -> tuple[QueryStatistics, ...] | None:
        """Return what scoring a query needs to know; None for many queries, which share terms."""
        if len(queries) != 1:
            return None
        return (self._pinned().of_query(self.parse(queries[0])),)

    def know_statistics(self, queries: Sequence[Query], found: Sequence[QueryStatistics]) -> None:
        """Take what scoring queries needs from who has looked it up; the last stays."""
        for query, own in zip(queries, found, strict=True):
            self._pinned().know(self.parse(query), own)

    def settle(self, query: Query, docids: Sequence[str]) -> tuple[float | None, ...]:
        """Score documents exactly; None for those that are gone."""
        parsed, rows = self.parse(query), self._store.rows(docids)
        exact = self._exact.score(parsed, list(rows.values()), self._pinned().of_query(parsed))
        return tuple(exact[rows[docid]] if docid in rows else None for docid in docids)

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
        statistics = self._pinned().of_query(parsed)
        parts = []
        for document in documents:
            check_interruption()
            found = list(contributions(parsed, self.analyse(document), statistics))
            parts.append(explain_parts(found))
        return tuple(parts)

    def score(self, queries: Sequence[Query], documents: Sequence[Document]) -> tuple[float, ...]:
        """Score each document for its own query as if it were in the collection; 0 for no match."""
        pairs = zip(queries, documents, strict=True)
        return tuple(self.explain(query, [document])[0].value for query, document in pairs)

    def counts(self) -> Statistics:
        """Return the collection's statistics, in the state that is searched."""
        return self._pinned().file

    def parse(self, query: Query) -> LexicalQuery:
        """Turn what the user typed into weighted clauses over terms."""
        if self._parsed is None or self._parsed[0] != query.text:
            self._parsed = (query.text, self._parse(query))
        return self._parsed[1]

    def _parse(self, query: Query) -> LexicalQuery:
        fields = self._opened().fields
        asked = read_query(query.text, fields=fields if self._syntax else None)
        if self._anywhere is None:
            self._anywhere = self._config.weights(fields)
        return make_query(asked, self._anywhere, self._analyser)

    def fitting(self, query: Query) -> set[int] | None:
        """Return the rows that a query's signs leave; None where it has none."""
        return self._opened().fitting(self.parse(query))

    def term_weights(self, query: Query) -> dict[str, float]:
        """Return the idf of each wanted term, to choose passages and highlights by."""
        if self._weighed is None or self._weighed[0] != query.text:
            parsed = self.parse(query)
            terms = dict.fromkeys([term for each in parsed.wanted for term in each.terms])
            self._weighed = (query.text, self._pinned().inverse_frequencies(parsed, terms))
        return self._weighed[1]

    def unknown_terms(self, query: Query) -> tuple[str, ...]:
        """List the wanted terms that no document has."""
        found = self._pinned().frequencies(EVERYTHING, self.term_weights(query))
        return tuple(term for term, documents in found.items() if not documents)

    def passage_terms(self, rows: Iterable[int]) -> dict[int, PassageTerms]:
        """Read which terms stand in each passage of documents; not all need have been kept."""
        if self._records is None:
            self._records = open_records(self.folder, self._store, self._analyser)
        return self._records.read(rows)

    def settle_ties(
        self, query: Query, hits: Sequence[Hit], stored: Mapping[str, StoredDocument]
    ) -> tuple[Hit, ...]:
        """Order hits exactly whose scores single precision cannot tell apart.

        Documents with the same fields score the same, so they are not looked into.
        """
        parsed = self.parse(query)
        if not has_ties(hits) or self._by_postings().can_answer(parsed):
            return tuple(hits)  # told apart, or scored exactly
        if not self._agreement().holds(parsed):
            return tuple(hits)  # likewise
        groups = list(near_ties(hits))
        if not self._is_of_one_state():
            groups = [list(hits)]
        differing = [
            stored[hit.docid].row
            for group in groups
            if len(group) > 1
            and len({tuple(stored[hit.docid].document.fields.items()) for hit in group}) > 1
            for hit in group
        ]
        statistics = self._pinned().of_query(parsed)
        exact = self._exact.score(parsed, differing, statistics) if differing else {}
        return settle(groups, {hit.docid: exact.get(stored[hit.docid].row) for hit in hits})

    def analyse(self, document: Document) -> FieldTerms:
        """Turn a document into terms, field by field."""
        return analyse(document, self._analyser)

    def close(self) -> None:
        """Release what was opened."""
        for opened in (self._statistics, self._records):
            if opened is not None:
                opened.close()
        self._records = self._parsed = None
        self._index = self._statistics = self._anywhere = self._weighed = None
        self._docids, self._agreed, self._ranking = {}, None, None

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
            "terms": self._pinned().file.num_terms,
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
        """Check every checksum, index and statistics against the store, and scores by both."""
        problems = tuple(self._upkeep(store, progress).find_damage())
        if problems or not self.is_current(store.change):
            return problems
        wrong = find_wrong_scores(self, store, num_documents=self._opened().num_documents)
        return tuple(f"{self.folder}: {each}" for each in wrong)

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
            workers=self._workers,
        )

    # Inner workings --------------------------------------------------------------------------

    def _search_one(self, query: Query, k: int, allowed: set[int] | None) -> tuple[Hit, ...]:
        check_interruption()
        parsed = self.parse(query)
        self._opened().require_uncut()
        scored = self._top_k(parsed, k, allowed=allowed)
        docids = self._name([row for row, _value in scored])
        ranked = sorted((-value, docids[row]) for row, value in scored)
        return tuple([_make_hit(docid, -value, None) for value, docid in ranked[:k]])

    def _propose_one(self, query: Query, k: int, allowed: set[int] | None) -> ShardHits:
        parsed = self.parse(query)
        if self._costs_no_more(parsed):
            return as_columns(self._search_one(query, k, allowed))
        check_interruption()
        self._opened().require_uncut()
        boost, slack = self._agreement().corrections(parsed, self._pinned().of_query(parsed))
        scored = self._opened().top_k(parsed, k + 1, allowed=allowed, boost=boost)
        docids = self._name([row for row, _value in scored])
        return ShardHits(
            tuple(docids[row] for row, _value in scored),
            tuple(value for _row, value in scored),
            slack.least,
            slack.most,
            LEAST_STEP,
        )

    def _top_k(self, query: LexicalQuery, k: int, *, allowed: set[int] | None) -> list[Scored]:
        """Find the k best rows, with ties, by whatever knows their scores soonest."""
        if self._by_postings().can_answer(query):
            return self._by_postings().top_k(query, k, allowed=allowed)
        if self._agreement().holds(query):
            return self._opened().top_k(query, k, allowed=allowed)
        return self._top_exact(query, k, allowed=allowed)

    def _costs_no_more(self, query: LexicalQuery) -> bool:
        """Whether scores are right at once, so that a few more hits cost nothing."""
        return self._by_postings().can_answer(query) or self._agreement().holds(query)

    def _by_postings(self) -> PostingsRanking:
        if self._ranking is None:
            is_shard = self._exchanged is not None
            self._ranking = PostingsRanking(self._opened(), self._pinned(), of_all_shards=is_shard)
        return self._ranking

    def _agreement(self) -> CountAgreement:
        if self._agreed is None:
            is_shard = self._exchanged is not None
            self._agreed = CountAgreement(self._opened(), self._pinned(), of_all_shards=is_shard)
        return self._agreed

    def _name(self, rows: Sequence[int]) -> dict[int, str]:
        """Find docids by row; a row's docid never changes, so each is looked up once."""
        if len(self._docids) > _MAX_KNOWN_DOCIDS:
            self._docids = {}
        unknown = [row for row in rows if row not in self._docids]
        if unknown:
            found = self._store.docids(unknown)
            if len(found) < len(unknown):
                raise IndexMoved(MOVED)
            self._docids.update(found)
        return self._docids

    def _top_exact(self, query: LexicalQuery, k: int, *, allowed: set[int] | None) -> list[Scored]:
        """Find the k best rows, with ties, by statistics that the index does not count with."""
        statistics = self._pinned().of_query(query)
        boost, slack = self._agreement().corrections(query, statistics)
        most = slack.most  # times what was proposed, a document scores
        scored: dict[int, float] = {}
        floor, depth = float("-inf"), 2 * k
        while True:
            proposed = self._opened().top_k(query, depth, allowed=allowed, boost=boost)
            for part in (proposed[:k], proposed[k:]):  # the first say what the others must reach
                worth = [row for row, value in part if value * most >= floor and row not in scored]
                scored.update(self._exact.score(query, worth, statistics))
                best = sorted(scored.values(), reverse=True)
                floor = best[k - 1] if len(best) >= k else floor
            if len(proposed) < depth or proposed[-1][1] * most < floor:
                return list(scored.items())
            depth *= 4

    def _opened(self) -> LexicalIndex:
        if self._index is None:
            self._index = open_index(self.folder, self._analyser)
        return self._index

    def _is_of_one_state(self) -> bool:
        """Whether documents, index and statistics hold the same changes; a writer commits each.

        Otherwise scores of the one cannot stand among scores by the other.
        """
        index = self._opened()
        change = index.artifact.change
        if self._exchanged is not None or not index.is_settled:
            return False
        return self._store.change == self._pinned().change == change

    def _pinned(self) -> PinnedStatistics:
        if self._statistics is None:
            own = self.folder / STATISTICS_FILE
            self._statistics = PinnedStatistics(self._exchanged or own)
        return self._statistics
