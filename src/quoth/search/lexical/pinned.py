"""The statistics of the state that is searched: pinned, so each number is read from disk once."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from pathlib import Path

from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.search.lexical.score import QueryStatistics
from quoth.vocabulary.statistics import Statistics
from quoth.vocabulary.term_counts import EVERYTHING
from quoth.vocabulary.weighting import inverse_document_frequency

_MAX_KNOWN = 200_000


class PinnedStatistics:
    """A statistics file as it was when first read."""

    def __init__(self, path: Path) -> None:
        self.file = Statistics.open(path)
        self.file.pin()
        self._known: dict[str, dict[str, int]] = {}
        self._num_known = 0
        self._inverse: dict[str, float] = {}
        self._last: tuple[LexicalQuery, QueryStatistics] | None = None

    def close(self) -> None:
        """Release the file."""
        self.file.close()

    @functools.cached_property
    def change(self) -> int:
        """Number of the last change that is counted."""
        return self.file.change

    @functools.cached_property
    def totals(self) -> tuple[int, dict[str, float]]:
        """Documents, and their mean length per view."""
        return self.file.num_documents, self.file.average_lengths()

    def frequencies(self, view: str, terms: Iterable[str]) -> dict[str, int]:
        """Count the documents that hold each term in a view."""
        if self._num_known > _MAX_KNOWN:
            self._known, self._num_known = {}, 0
        known = self._known.setdefault(view, {})
        unknown = [term for term in terms if term not in known]
        if unknown:
            known.update(dict.fromkeys(unknown, 0))
            known.update(self.file.document_frequencies(view, unknown))
            self._num_known += len(unknown)
        return {term: known[term] for term in terms}

    def of_query(self, query: LexicalQuery) -> QueryStatistics:
        """Return what scoring a query needs; that of the last one is kept."""
        last = self._last  # other threads may replace it meanwhile
        if last is None or last[0] is not query:
            by_view = terms_by_view(query).items()
            found = {view: self.frequencies(view, terms) for view, terms in by_view}
            last = self._last = (query, QueryStatistics(*self.totals, found))
        return last[1]

    def inverse_frequencies(self, query: LexicalQuery, terms: Iterable[str]) -> dict[str, float]:
        """Return the idf of terms of a query in the whole document."""
        if len(self._inverse) > _MAX_KNOWN:
            self._inverse = {}
        known = self._inverse
        unknown = [term for term in terms if term not in known]
        if unknown:
            counts = self._kept(query, EVERYTHING)
            rest = [term for term in unknown if term not in counts]
            counts |= self.frequencies(EVERYTHING, rest)
            total, _lengths = self.totals
            for term in unknown:
                known[term] = inverse_document_frequency(counts[term], num_documents=total)
        return {term: known[term] for term in terms}

    def _kept(self, query: LexicalQuery, view: str) -> dict[str, int]:
        """Return the counts that are kept of a query in a view, without looking for any."""
        last = self._last
        return dict(last[1].frequencies.get(view, {})) if last and last[0] is query else {}

    def know(self, query: LexicalQuery, found: QueryStatistics) -> None:
        """Take what scoring a query needs from who has looked it up in the same statistics."""
        self._last = (query, found)


def terms_by_view(
    query: LexicalQuery, *, besides: Collection[str] = frozenset()
) -> dict[str, set[str]]:
    """Return the terms that scoring looks at in each view but some."""
    groups: dict[int, tuple[Clause, set[str]]] = {}  # most clauses share one tuple of weights
    for clause in query.wanted:
        groups.setdefault(id(clause.weights), (clause, set()))[1].update(clause.terms)
    terms: dict[str, set[str]] = {}
    for clause, group in groups.values():
        for view, _weight in clause.weights:
            if view not in besides:
                terms.setdefault(view, set()).update(group)
    return terms
