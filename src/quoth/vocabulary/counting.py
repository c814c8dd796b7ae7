"""Count words in memory, where a text is too small or too short-lived for statistics on disk."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quoth.vocabulary.term_counts import FieldTerms, view_terms


@dataclass(frozen=True, slots=True)
class CountedTerms:
    """Documents per term and terms per view, as `Statistics` gives them."""

    num_documents: int
    frequencies: Mapping[str, Mapping[str, int]]
    """View → term → documents that hold it."""

    lengths: Mapping[str, int]
    """View → terms in all documents together."""

    def document_frequencies(self, view: str, terms: Iterable[str]) -> dict[str, int]:
        """Number of documents that hold each term in this view; terms never seen are left out."""
        known = self.frequencies.get(view, {})
        return {term: known[term] for term in terms if term in known}

    def average_lengths(self) -> dict[str, float]:
        """Mean number of terms per view, documents without the field counted as empty."""
        count = max(1, self.num_documents)
        return {view: total / count for view, total in self.lengths.items()}


def count_terms(documents: Iterable[FieldTerms]) -> CountedTerms:
    """Count documents after the analyser.

    >>> counted = count_terms([{"text": [["owl", "owl"]]}, {"text": [["owl", "hen"]]}])
    >>> counted.document_frequencies("*", ["owl", "hen", "mouse"]), counted.average_lengths()["*"]
    ({'owl': 2, 'hen': 1}, 2.0)
    """
    frequencies: defaultdict[str, Counter[str]] = defaultdict(Counter)
    lengths: Counter[str] = Counter()
    total = 0
    for document in documents:
        total += 1
        for view, terms in view_terms(document):
            lengths[view] += len(terms)
            frequencies[view].update(set(terms))
    return CountedTerms(total, frequencies, lengths)
