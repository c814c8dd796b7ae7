"""Scores of documents by the statistics that hold, whatever the index counts with."""

from __future__ import annotations

from collections.abc import Sequence, Set

from quoth.collection.store import Store
from quoth.collection.store_reader import FEWEST_FORGOTTEN
from quoth.errors import IndexMoved
from quoth.index.lexical.query import LexicalQuery
from quoth.interruption import check_interruption
from quoth.records import Document
from quoth.search.lexical.analysing import analyse
from quoth.search.lexical.counts import CountScorer, TermCounts, is_countable
from quoth.search.lexical.score import QueryStatistics, score
from quoth.text.words import Analyser

MOVED = "a writer replaced the lexical index during a search; search again"
_MAX_KNOWN_COUNTS = 2_000_000  # of analysed documents; some 80 MB


class ExactScorer:
    """Scores rows of a store, whose content never changes: what was counted of them is kept."""

    def __init__(self, store: Store, analyser: Analyser) -> None:
        self._store = store
        self._analyser = analyser
        self._counts_by_row: dict[int, TermCounts] = {}
        self._num_counts = 0
        self._gone_are_due_at = FEWEST_FORGOTTEN

    def score(
        self, query: LexicalQuery, rows: Sequence[int], statistics: QueryStatistics
    ) -> dict[int, float]:
        """Score documents by their rows."""
        if is_countable(query):
            scorer = CountScorer(query, statistics)
            counts = self._count_rows(rows, scorer.views)
            return {row: scorer.score(counts[row]) for row in rows}
        scored = {}
        for row, document in self._fetch(rows).items():
            check_interruption()
            scored[row] = score(query, analyse(document, self._analyser), statistics)
        return scored

    def _count_rows(self, rows: Sequence[int], views: Set[str]) -> dict[int, TermCounts]:
        if self._num_counts > _MAX_KNOWN_COUNTS:
            self._counts_by_row, self._num_counts = {}, 0
        known = self._counts_by_row
        unknown = [
            row for row in rows if row not in known or not views <= known[row].lengths.keys()
        ]
        for row, document in self._fetch(unknown).items():
            check_interruption()
            known[row] = TermCounts(analyse(document, self._analyser), views)
            self._num_counts += known[row].size
        if len(known) >= self._gone_are_due_at:
            self._forget_gone(besides=set(rows))
        return known

    def _forget_gone(self, *, besides: Set[int]) -> None:
        """Forget what was counted of rows that were replaced or removed since."""
        live = self._store.live_among(list(self._counts_by_row)) | besides
        kept = {row: each for row, each in self._counts_by_row.items() if row in live}
        self._counts_by_row, self._num_counts = kept, sum(each.size for each in kept.values())
        self._gone_are_due_at = max(FEWEST_FORGOTTEN, 2 * len(kept))

    def _fetch(self, rows: Sequence[int]) -> dict[int, Document]:
        documents = self._store.documents(rows) if rows else {}
        if len(documents) < len(rows):
            raise IndexMoved(MOVED)
        return documents
