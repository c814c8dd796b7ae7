"""Scoring by counts is scoring term by term, to the last bit."""

from __future__ import annotations

import random

import pytest

from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.search.lexical.counts import CountScorer, TermCounts, is_countable
from quoth.search.lexical.score import QueryStatistics, score

WORDS = ["a", "b", "c", "d", "e", "f", "g"]


def _clause(term: str, chance: random.Random) -> Clause:
    weights = (("*", float(chance.randint(1, 3))), ("title", 0.3), ("url", 0.0))
    return Clause((term,), weights, chance.choice(("should", "must", "must_not")))


@pytest.mark.parametrize("seed", range(20))
def test_counts_score_as_terms_do(seed: int) -> None:
    chance = random.Random(seed)
    document = {
        "title": [chance.choices(WORDS, k=3)],
        "text": [chance.choices(WORDS, k=chance.randint(0, 50)) for _ in range(2)],
    }
    query = LexicalQuery(tuple(_clause(term, chance) for term in chance.sample(WORDS, 4)))
    statistics = QueryStatistics(
        100,
        {"*": 31.7, "title": 2.9},
        {view: {term: chance.randint(0, 99) for term in WORDS} for view in ("*", "title")},
    )
    scorer = CountScorer(query, statistics)
    counts = TermCounts(document, scorer.views)
    assert scorer.score(counts) == score(query, document, statistics)
    assert scorer.views <= {"*", "title"} and counts.size <= 2 * len(WORDS)


def test_a_phrase_cannot_be_counted() -> None:
    single, phrase = Clause(("a",), (("*", 1.0),)), Clause(("a", "b"), (("*", 1.0),))
    assert is_countable(LexicalQuery((single, single)))
    assert not is_countable(LexicalQuery((single, phrase)))
