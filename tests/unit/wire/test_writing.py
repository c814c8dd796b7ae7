"""From records to JSON: every key, every offset."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quoth.client.wire import read_answer, read_hits
from quoth.records import (
    Answer,
    Attention,
    Citation,
    Hit,
    OutOfReach,
    Part,
    Passage,
    RankAndScore,
    SearchRequest,
    ShownAnswer,
    ShownHit,
    ShownHits,
    Snippet,
    Span,
    WordShare,
)
from quoth.wire.schemas import AnswerResponse, SearchResponse
from quoth.wire.writing import answer_response, search_json, search_response

TEXT = "Owls hunt. A raven\nsaid [1] nothing. It flew."
FIELD = "x" * 40 + TEXT
PASSAGE = Passage("raven", "text", Span(40, 40 + len(TEXT)), TEXT, 1)
QUOTED = Citation(Span(4, 20), PASSAGE, Span(11, 27))
ANSWER = Answer("The A raven\nsaid [1] did.", (QUOTED,), (PASSAGE,), support=0.9)
SHOWN = ShownHit(
    3,
    Hit("raven", 1.5, PASSAGE),
    "A raven",
    {"year": 1845, "tags": ("a", 2, 0.5, True)},
    Snippet("Owls hunt.", Span(40, 50), (Span(0, 4),)),
    {"lexical": RankAndScore(1, 2.5), "dense": RankAndScore(7, 0.25)},
    Part("fused", 1.5, (Part("lexical", 1.0), Part("dense", 0.5))),
)
LOST = (OutOfReach(2, 7, "node lost"),)


def test_a_search_is_read_as_it_was_written() -> None:
    found = ShownHits((SHOWN, ShownHit(4, Hit("bare", 0.5))), "hybrid", LOST)
    made = search_response(SearchRequest("owl", k=2, offset=2), found, {"search": 0.5})
    record = made.model_dump(mode="json")
    assert SearchResponse.model_validate(record) == made and record["seconds"] == {"search": 0.5}
    assert (record["query"], record["k"], record["offset"]) == ("owl", 2, 2)
    assert record["hits"][0]["snippet"]["highlights"] == [[0, 4]]
    assert record["hits"][1]["explanation"] is record["hits"][1]["passage"] is None
    assert read_hits(record) == found


def test_what_is_served_is_the_json_of_the_response() -> None:
    attention = Attention((WordShare("owl", 0.75),), ())
    strange = ShownHit(4, Hit("ü\n", float("inf")), attention=attention, metadata={"n": 10**30})
    found = ShownHits((SHOWN, strange), "hybrid", LOST)
    request = SearchRequest("owl", k=2)
    served = search_json(request, found, {"search": 0.5})
    assert served == search_response(request, found, {"search": 0.5}).model_dump_json().encode()


def test_attention_is_written_word_by_word() -> None:
    attention = Attention((WordShare("owl", 0.75),), (WordShare("raven", 0.5),))
    shown = ShownHit(1, Hit("d", 1.0), attention=attention)
    (hit,) = search_response(SearchRequest("owl"), ShownHits((shown,), "dense")).hits
    assert hit.attention is not None
    assert hit.attention.model_dump() == {
        "query": [{"word": "owl", "share": 0.75}],
        "document": [{"word": "raven", "share": 0.5}],
    }


def test_offsets_of_a_citation_count_in_field_and_answer() -> None:
    shown = ShownAnswer("Who?", ANSWER, (SHOWN,), "lexical", "a notice", LOST, "half", "Whose?")
    made = answer_response(shown)
    assert (made.incomplete, made.did_you_mean) == ("half", "Whose?")
    assert (made.question, made.text, made.notice) == ("Who?", ANSWER.text, "a notice")
    assert made.marked == "The A raven\nsaid \\[1][1] did."
    (citation,) = made.citations
    assert FIELD[citation.start : citation.end] == citation.quoted == "A raven\nsaid [1]"
    assert made.text[citation.answer_start : citation.answer_end] == citation.quoted
    assert FIELD[citation.sentence_start :].startswith(citation.sentence)
    assert citation.sentence == "A raven\nsaid [1] nothing." and citation.instance == 1
    assert [made.text[each.answer_start : each.answer_end] for each in made.unquoted] == [
        "The ",
        " did.",
    ]
    assert [each.docid for each in made.passages] == ["raven"]
    record = made.model_dump(mode="json")
    assert AnswerResponse.model_validate(record) == made and read_answer(record) == ANSWER


@pytest.mark.parametrize("module", ["quoth", "quoth.cli.main", "quoth.client.client"])
def test_nothing_that_starts_quickly_imports_what_types_the_json(module: str) -> None:
    code = f"import sys, {module}; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
