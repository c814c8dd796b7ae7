"""Rank by an index's postings, where it has them: faster than tantivy, and exact at once.

So there is nothing to mend afterwards, whatever was removed, and on a shard: idf is that of the
statistics that hold. Phrases, and indexes without postings, are left to tantivy.
"""

from __future__ import annotations

from quoth.index.lexical.index import LexicalIndex, Scored
from quoth.index.lexical.query import LexicalQuery
from quoth.search.lexical.pinned import PinnedStatistics
from quoth.search.lexical.score import QueryStatistics


class PostingsRanking:
    """One opened index beside the statistics that hold."""

    def __init__(
        self, index: LexicalIndex, statistics: PinnedStatistics, *, of_all_shards: bool
    ) -> None:
        """Rank by an index's own statistics, or by those of all shards together."""
        self._postings = index.postings
        self._statistics = statistics
        # A writer commits the statistics after the index; in between, they lack its last changes.
        is_of_one_state = of_all_shards or statistics.change == index.artifact.change
        if not is_of_one_state:
            self._postings = None
        has_gone = self._postings is not None and self._postings.has_gone
        self._asks_for_idf = of_all_shards or has_gone
        self._last: tuple[LexicalQuery, bool] | None = None

    def can_answer(self, query: LexicalQuery) -> bool:
        """Whether there are postings, and a query needs no more than these."""
        last = self._last  # other threads may replace it meanwhile
        if last is None or last[0] is not query:
            can = self._postings is not None and self._postings.can_answer(query)
            last = self._last = (query, can)
        return last[1]

    def top_k(self, query: LexicalQuery, k: int, *, allowed: set[int] | None) -> list[Scored]:
        """Find the k best rows, and all that tie with the last of them."""
        if self._postings is None or not query.wanted:
            return []
        idf = idf_by_view(query, self._statistics.of_query(query)) if self._asks_for_idf else None
        totals = self._statistics.totals
        return self._postings.top_k(query, k, allowed=allowed, totals=totals, idf=idf)


def idf_by_view(query: LexicalQuery, statistics: QueryStatistics) -> dict[str, dict[str, float]]:
    """Return the idf of every term in each view that it is scored in."""
    found: dict[str, dict[str, float]] = {}
    for clause in query.wanted:
        for view, _weight in clause.weights:
            found.setdefault(view, {})[clause.terms[0]] = statistics.idf(view, clause.terms)
    return found
