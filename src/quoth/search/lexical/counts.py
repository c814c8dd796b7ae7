"""Score many documents for one query by their term counts: `score.py`, made fast.

For queries of single terms only; a phrase needs the order of words. Both sums are exactly rounded,
so the score of a document is the same to the last bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from quoth.index.lexical.query import LexicalQuery
from quoth.search.lexical.score import QueryStatistics
from quoth.vocabulary.term_counts import FieldTerms, view_terms
from quoth.vocabulary.weighting import K1, length_norm, quantise_length


class TermCounts:
    """The counts of one document in the views that were asked for."""

    __slots__ = ("frequencies", "lengths")

    def __init__(self, document: FieldTerms, views: Iterable[str]) -> None:
        wanted = set(views)
        terms = {view: found for view, found in view_terms(document) if view in wanted}
        self.frequencies: dict[str, Mapping[str, int]] = {
            view: Counter(terms.get(view, ())) for view in wanted
        }
        self.lengths = {view: quantise_length(len(terms.get(view, ()))) for view in wanted}

    @property
    def size(self) -> int:
        """Entries held, to bound what is kept."""
        return sum(len(each) for each in self.frequencies.values())


class CountScorer:
    """One query over one collection's statistics, prepared."""

    def __init__(self, query: LexicalQuery, statistics: QueryStatistics) -> None:
        self._averages = statistics.average_lengths
        self._leaves = [
            (view, clause.terms[0], weight * statistics.idf(view, clause.terms))
            for clause in query.wanted
            for view, weight in clause.weights
            if weight
        ]
        self.views = frozenset(view for view, _term, _factor in self._leaves)

    def score(self, document: TermCounts) -> float:
        """Score a document that matches the query."""
        frequencies, parts = document.frequencies, []
        norms = {
            view: K1 * length_norm(document.lengths[view], self._averages.get(view, 0.0))
            for view in self.views
        }
        for view, term, factor in self._leaves:
            tf = frequencies[view].get(term, 0)
            if tf:
                parts.append(factor * (tf * (K1 + 1.0) / (tf + norms[view])))
        return math.fsum(parts)


def is_countable(query: LexicalQuery) -> bool:
    """Whether a query has single terms only."""
    return all(len(clause.terms) == 1 for clause in query.wanted)
