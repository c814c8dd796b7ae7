"""Random documents made of terms that the analyser leaves as they are, and their statistics."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

from quoth.records import Document
from quoth.search.lexical.score import QueryStatistics
from quoth.vocabulary.term_counts import FieldTerms, view_terms

TERMS = [f"t{number}" for number in range(40)]
_WEIGHTS = [1 / (rank + 1) for rank in range(len(TERMS))]  # Zipf, as words are


def random_terms(chance: random.Random, *, longest: int) -> list[str]:
    """Draw a text; frequent terms repeat, so that phrases and high tf occur."""
    return chance.choices(TERMS, _WEIGHTS, k=chance.randint(0, longest))


def random_fields(chance: random.Random, *, longest: int) -> FieldTerms:
    """Draw a document with some of three fields, one of them repeated."""
    document: dict[str, list[list[str]]] = {"text": [random_terms(chance, longest=longest)]}
    if chance.random() < 0.7:
        document["title"] = [random_terms(chance, longest=6)]
    if chance.random() < 0.5:
        document["tags"] = [random_terms(chance, longest=3) for _ in range(chance.randint(1, 3))]
    return document


def as_document(docid: str, terms: FieldTerms) -> Document:
    """Write terms out as a document, and make sure that it has some text."""
    fields = {name: tuple(" ".join(each) for each in texts) for name, texts in terms.items()}
    return Document(docid, {**fields, "id": (docid,)})


def count_terms(documents: Iterable[FieldTerms]) -> QueryStatistics:
    """Count a corpus in memory."""
    every = list(documents)
    lengths: Counter[str] = Counter()
    frequencies: dict[str, Counter[str]] = {}
    for document in every:
        for view, terms in view_terms(document):
            lengths[view] += len(terms)
            frequencies.setdefault(view, Counter()).update(set(terms))
    averages = {view: total / max(1, len(every)) for view, total in lengths.items()}
    return QueryStatistics(len(every), averages, frequencies)


def best_first(scores: Mapping[int, float]) -> list[tuple[int, float]]:
    """Sort rows by score, ties by row."""
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
