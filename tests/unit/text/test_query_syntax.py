"""What a user may type, and that nothing they type is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.text.query_syntax import QueryClause, parse_query, plain_query, read_query
from quoth.text.words import Analyser, AnalyserConfig

ANALYSER = Analyser(AnalyserConfig())
SPLITTING = Analyser(AnalyserConfig("german", compounds=("haus", "tür")))


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("owl", [QueryClause("owl")]),
        ("+owl -barn", [QueryClause("owl", "must"), QueryClause("barn", "must_not")]),
        ('"barn owl"', [QueryClause("barn owl", "must", None, True)]),
        ('-"barn owl"', [QueryClause("barn owl", "must_not", None, True)]),
        ("title:owl", [QueryClause("owl", "should", "title")]),
        ('+title:"barn owl"', [QueryClause("barn owl", "must", "title", True)]),
        ("-title:owl", [QueryClause("owl", "must_not", "title")]),
        ("when:now", [QueryClause("when:now")]),
        ("state-of-the-art", [QueryClause("state-of-the-art")]),
        ("3 - 2", [QueryClause("3"), QueryClause("-"), QueryClause("2")]),
        ("C++", [QueryClause("C++")]),
        ('say "', [QueryClause("say"), QueryClause('"')]),
        ("title:", [QueryClause("title:")]),
        ("", []),
    ],
)
def test_examples(text: str, clauses: list[QueryClause]) -> None:
    assert list(parse_query(text, fields=["title"])) == clauses


@given(st.text() | st.text('+-": title owl\t'))
def test_no_input_raises_and_no_word_is_lost(text: str) -> None:
    clauses = parse_query(text, fields=["title"])
    found = [term for clause in clauses for term in ANALYSER.terms(clause.text)]
    named = [term for clause in clauses if clause.field for term in ANALYSER.terms(clause.field)]
    assert sorted(found + named) == sorted(ANALYSER.terms(text))


@given(st.text())
def test_plain_queries_are_words_alone(text: str) -> None:
    assert plain_query(text) == (QueryClause(text),)


@pytest.mark.parametrize("analyser", [ANALYSER, SPLITTING])
@given(text=st.text() | st.text("+-\": title'’_owl\t\x1f\xa0éㄱ東京Haustür\u0301"))
def test_a_query_read_as_one_text_has_the_terms_of_its_clauses(
    analyser: Analyser, text: str
) -> None:
    read, parsed = read_query(text, fields=["title"]), parse_query(text, fields=["title"])
    if read != parsed:
        assert read == plain_query(text)
        assert {(each.occur, each.field, each.is_phrase) for each in parsed} <= {
            ("should", None, False)
        }
        terms = [term for each in parsed for term in analyser.terms(each.text)]
        assert analyser.terms(text) == terms
    assert read_query(text, fields=None) == plain_query(text)
