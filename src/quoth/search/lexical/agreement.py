"""Where tantivy's counts differ from those that hold, and what mends its scores.

They differ while removed documents are counted, on a shard, which knows its own documents only, and
once a merge dropped removed documents: tantivy then counts the lengths of those it keeps from their
one-byte form, and its mean length stays a little off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quoth.index.lexical.index import Boost, IndexState, LexicalIndex
from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.search.lexical.pinned import PinnedStatistics, terms_by_view
from quoth.search.lexical.score import QueryStatistics
from quoth.search.lexical.ties import ROUNDING

_LARGEST_DRIFT = 1e-6
"""Share by which two mean lengths may differ: tantivy divides in single precision."""


_LEAST_MENDED = 1e-2
"""Share by which an idf must be off to be mended: a clause that is boosted takes a quarter longer,
and the idf of frequent words, which take most of the time, is hardly off where documents are
many. What is left unmended counts as slack."""


@dataclass(frozen=True, slots=True)
class Slack:
    """A document scores at least and at most so many times what tantivy says."""

    least: float
    most: float


class CountAgreement:
    """One opened index beside the statistics that hold."""

    def __init__(
        self, index: LexicalIndex, statistics: PinnedStatistics, *, of_all_shards: bool
    ) -> None:
        """Compare an index with its own statistics, or with those of all shards together."""
        self._index = index
        self._states: dict[str, IndexState] = {}
        self._agreeing: set[str] = set()  # views, each compared once: no query changes it
        num_documents, self._average_lengths = statistics.totals
        self._counts_others = of_all_shards and num_documents != index.num_documents
        # A writer commits the statistics after the index; in between, tantivy's own are newer.
        self._is_behind = not of_all_shards and statistics.change != index.artifact.change
        self._last: tuple[LexicalQuery, bool] | None = None

    def holds(self, query: LexicalQuery) -> bool:
        """Whether tantivy scores a query with the very counts of the statistics."""
        last = self._last  # other threads may replace it meanwhile
        if last is None or last[0] is not query:
            last = self._last = (query, self._compare(query))
        return last[1]

    def corrections(self, query: LexicalQuery, statistics: QueryStatistics) -> tuple[Boost, Slack]:
        """Return the boosts that mend tantivy's idf, and how far it can be off in spite of them."""
        least, most = 1.0, 1.0
        used: dict[str, QueryStatistics] = {}
        for view, terms in terms_by_view(query).items():
            state = self._state(view, terms)
            if state is None:  # no term of the query is left in this view
                continue
            average = statistics.average_lengths.get(view, 0.0)
            # A score grows with the mean length, at most as fast, and never the other way.
            ratio = average / state.average_length
            least, most = min(least, ratio), max(most, ratio)
            counts = self._index.document_frequencies(view, terms)
            used[view] = QueryStatistics(state.num_documents, {}, {view: counts})

        mended: dict[tuple[str, tuple[str, ...]], float] = {}
        lowest, highest = 1.0, 1.0
        for clause in query.wanted:
            for view, _weight in clause.weights:
                if view not in used:
                    continue
                ratio = statistics.idf(view, clause.terms) / used[view].idf(view, clause.terms)
                if abs(ratio - 1.0) > _LEAST_MENDED:
                    mended[view, clause.terms] = ratio
                else:
                    lowest, highest = min(lowest, ratio), max(highest, ratio)

        def boost(clause: Clause, view: str) -> float:
            return mended.get((view, clause.terms), 1.0)

        return boost, Slack(least * lowest / ROUNDING, most * highest * ROUNDING)

    def _compare(self, query: LexicalQuery) -> bool:
        if self._index.num_dead or self._counts_others:
            return False
        if self._is_behind:
            return True
        terms_of_others = terms_by_view(query, besides=self._agreeing)
        return not any(self._drifts(view, terms) for view, terms in terms_of_others.items())

    def _drifts(self, view: str, terms: Iterable[str]) -> bool:
        state = self._state(view, terms)
        if state is None:
            return False
        true = self._average_lengths.get(view, 0.0)
        if abs(state.average_length - true) > _LARGEST_DRIFT * true:
            return True
        self._agreeing.add(view)
        return False

    def _state(self, view: str, terms: Iterable[str]) -> IndexState | None:
        """Find out what tantivy scores with in a view, the same for all terms of it."""
        if view not in self._states:
            states = (self._index.state(view, term) for term in terms)
            found = next(filter(None, states), None)
            if found is None:
                return None
            self._states[view] = found
        return self._states[view]
