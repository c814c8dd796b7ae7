"""A brute-force collection: a dict of documents, scored one by one with exact statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from filter_reference import matches as filter_matches

from quoth.collection.filter_syntax import parse_filter
from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.records import Document, Hit
from quoth.search.lexical.config import LexicalConfig
from quoth.search.lexical.score import QueryStatistics, count_phrase, score
from quoth.text.query_syntax import parse_query
from quoth.text.words import Analyser, AnalyserConfig
from quoth.vocabulary.term_counts import EVERYTHING, FieldTerms, view_terms

ANALYSER = Analyser(AnalyserConfig())


def analyse(document: Document) -> FieldTerms:
    return {n: [ANALYSER.terms(text) for text in texts] for n, texts in document.fields.items()}


def statistics_of(documents: Mapping[str, Document]) -> QueryStatistics:
    lengths: Counter[str] = Counter()
    frequencies: dict[str, Counter[str]] = {}
    for document in documents.values():
        for view, terms in view_terms(analyse(document)):
            lengths[view] += len(terms)
            frequencies.setdefault(view, Counter()).update(set(terms))
    count = max(1, len(documents))
    return QueryStatistics(
        len(documents), {view: total / count for view, total in lengths.items()}, frequencies
    )


def search(documents: Mapping[str, Document], text: str, *, k: int, where: str = "") -> list[Hit]:
    """Score every document, filter, sort by score and docid, and cut."""
    statistics = statistics_of(documents)
    fields = sorted({name for document in documents.values() for name in document.fields})
    weights = LexicalConfig().weights(fields)
    clauses = []
    for part in parse_query(text, fields=fields):
        terms = ANALYSER.terms(part.text)
        views = weights if part.field is None else ((part.field, 1.0),)
        groups = [tuple(terms)] if part.is_phrase and terms else [(term,) for term in terms]
        clauses += [Clause(group, views, part.occur) for group in groups]
    query = LexicalQuery(tuple(clauses))  # a repeated clause simply counts again
    hits = [
        Hit(docid, score(query, analyse(document), statistics))
        for docid, document in documents.items()
        if matches(query, analyse(document))
        and (not where or filter_matches(parse_filter(where), _values(document)))
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.docid))[:k]


def matches(query: LexicalQuery, document: FieldTerms) -> bool:
    """Whether a document is found at all: all musts, no must-nots, and something wanted."""
    found = {clause: _occurs(clause, document) for clause in query.clauses}
    if any(found[clause] for clause in query.clauses if clause.occur == "must_not"):
        return False
    if not all(found[clause] for clause in query.clauses if clause.occur == "must"):
        return False
    return any(found[clause] for clause in query.wanted)


def _occurs(clause: Clause, document: FieldTerms) -> bool:
    every = [terms for instances in document.values() for terms in instances]
    instances = every if clause.view == EVERYTHING else document.get(clause.view, ())
    return count_phrase(clause.terms, instances) > 0


def assert_same_hits(found: tuple[Hit, ...], expected: list[Hit], *, all_hits: list[Hit]) -> None:
    """The same scores at every rank, and the same documents wherever scores are told apart.

    tantivy computes in single precision, so two documents closer than that may change places; the
    idf of a term that is in nearly all documents is off by as much as that of any other.
    """
    assert len(found) == len(expected)
    exact = {hit.docid: hit.score for hit in all_hits}
    for mine, reference in zip(found, expected, strict=True):
        assert mine.score == pytest.approx(reference.score, rel=2e-6, abs=1e-6)
        assert mine.score == pytest.approx(exact[mine.docid], rel=2e-6, abs=1e-6)
    assert len({hit.docid for hit in found}) == len(found)


def _values(document: Document) -> dict[str, list[object]]:
    values: dict[str, list[object]] = {}
    for key, value in document.metadata.items():
        values.setdefault(key, []).extend(value if isinstance(value, tuple) else [value])
    for name, texts in document.fields.items():
        values.setdefault(name, []).extend(text for text in texts if len(text) <= 100)
    return values
