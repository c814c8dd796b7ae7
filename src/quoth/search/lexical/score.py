"""The lexical score of one document, term by term. Pure: statistics and terms in, numbers out.

This is the definition that the tantivy index must meet: Σ over clauses and views of weight · BM25,
where a phrase has the sum of its terms' idf and its own number of occurrences. It explains hits,
and scores candidates exactly while the index still counts removed documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.records import Part
from quoth.vocabulary.term_counts import EVERYTHING, FieldTerms, view_terms
from quoth.vocabulary.weighting import (
    inverse_document_frequency,
    length_norm,
    quantise_length,
    saturate,
)


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """What scoring one query needs to know of the collection."""

    num_documents: int
    average_lengths: Mapping[str, float]
    frequencies: Mapping[str, Mapping[str, int]]
    """View → term → number of documents."""

    def idf(self, view: str, terms: Sequence[str]) -> float:
        """Sum the idf of some terms in a view."""
        counts, total = self.frequencies.get(view, {}), self.num_documents
        if len(terms) == 1:  # as good as always
            return inverse_document_frequency(counts.get(terms[0], 0), num_documents=total)
        return sum(
            inverse_document_frequency(counts.get(term, 0), num_documents=total) for term in terms
        )


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one clause adds to a document's score in one view."""

    clause: Clause
    view: str
    weight: float
    idf: float
    tf: int
    length: int
    value: float


def score(query: LexicalQuery, document: FieldTerms, statistics: QueryStatistics) -> float:
    """Score a document that matches the query; the sum is exactly rounded, in whatever order."""
    return math.fsum(part.value for part in contributions(query, document, statistics))


def contributions(
    query: LexicalQuery, document: FieldTerms, statistics: QueryStatistics
) -> Iterator[Contribution]:
    """Yield every non-zero summand of a document's score, in the query's order."""
    terms_by_view = dict(view_terms(document))
    for clause in query.wanted:
        for view, weight in clause.weights:
            terms = terms_by_view.get(view, [])
            tf = count_phrase(clause.terms, _instances(document, view))
            if tf and weight:
                idf = statistics.idf(view, clause.terms)
                norm = length_norm(
                    quantise_length(len(terms)), statistics.average_lengths.get(view, 0)
                )
                value = weight * idf * saturate(tf, norm)
                yield Contribution(clause, view, weight, idf, tf, len(terms), value)


def explain_parts(parts: Sequence[Contribution]) -> Part:
    """Turn the summands into an explanation: one part per clause, one below it per view."""
    by_clause: dict[Clause, list[Part]] = {}
    for part in parts:
        place = "anywhere" if part.view == EVERYTHING else part.view
        label = (
            f"{place}: {part.tf}x in {part.length} words, "
            f"idf {part.idf:.3f}, weight {part.weight:g}"
        )
        by_clause.setdefault(part.clause, []).append(Part(label, part.value))
    clauses = tuple(
        Part(" ".join(clause.terms), sum(leaf.value for leaf in leaves), tuple(leaves))
        for clause, leaves in by_clause.items()
    )
    return Part("lexical", math.fsum(part.value for part in parts), clauses)


def count_phrase(phrase: Sequence[str], instances: Sequence[Sequence[str]]) -> int:
    """Count where a phrase stands in a field, overlaps included, never across two instances.

    >>> count_phrase(["a", "a"], [["a", "a", "a"], ["a"]])
    2
    """
    if len(phrase) == 1:
        return sum(list(terms).count(phrase[0]) for terms in instances)
    wanted, size = list(phrase), len(phrase)
    return sum(
        terms[at : at + size] == wanted
        for terms in map(list, instances)
        for at in range(len(terms) - size + 1)
    )


def _instances(document: FieldTerms, view: str) -> Sequence[Sequence[str]]:
    if view == EVERYTHING:
        return [terms for instances in document.values() for terms in instances]
    return document.get(view, ())
