"""Snippets are literal stretches of the field, and highlights are words of the query."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.records import Passage, Snippet, Span
from quoth.search.near import Body
from quoth.search.snippets import PassageChoice, make_snippet
from quoth.text.words import Analyser, AnalyserConfig

ANALYSER = Analyser(AnalyserConfig())
WORDS = ["owl", "Owls", "barn", "night", "the", "flies", "über", "東京都庁", "don't", "—", "x" * 30]
texts = st.lists(st.sampled_from(WORDS), max_size=80).map(" ".join) | st.text(max_size=200)
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def _passage(field: str, start: int = 0, end: int | None = None) -> Passage:
    span = Span(start, len(field) if end is None else end)
    return Passage("d", "text", span, field[span.start : span.end])


def _weights(query: str) -> dict[str, float]:
    return {term: 1.0 for term in ANALYSER.terms(query)}


def _shown(snippet: Snippet) -> list[str]:
    return [snippet.text[each.start : each.end] for each in snippet.highlights]


@given(texts, queries, st.integers(0, 40), st.integers(20, 120))
def test_every_highlight_is_made_of_words_whose_term_was_asked_for(
    text: str, query: str, start: int, max_chars: int
) -> None:
    passage = _passage(text, min(start, len(text)))
    weights = _weights(query)
    snippet = make_snippet(passage, weights, analyser=ANALYSER, max_chars=max_chars)
    assert snippet.text == text[snippet.span.start : snippet.span.end]
    assert passage.span.start <= snippet.span.start <= snippet.span.end <= passage.span.end
    assert len(snippet.text) <= max_chars
    at = 0
    for highlight, shown in zip(snippet.highlights, _shown(snippet), strict=True):
        assert at <= highlight.start < highlight.end <= len(snippet.text)
        at = highlight.end
        assert ANALYSER.terms(shown) and set(ANALYSER.terms(shown)) <= weights.keys()
    wanted = [word for word in ANALYSER.words(passage.text) if word.term in weights]
    if any(word.end - word.start <= max_chars for word in wanted):
        assert snippet.highlights, "a word that fits is there, so it must be shown"


@given(texts, queries)
def test_a_short_passage_is_shown_whole_with_every_word_of_the_query(text: str, query: str) -> None:
    weights = _weights(query)
    snippet = make_snippet(_passage(text), weights, analyser=ANALYSER, max_chars=10_000)
    assert snippet.text == text and snippet.span == Span(0, len(text))
    covered = {at for each in snippet.highlights for at in range(each.start, each.end)}
    wanted = [word for word in ANALYSER.words(text) if word.term in weights]
    assert covered == {at for word in wanted for at in range(word.start, word.end)}


def test_the_stretch_with_the_most_distinct_weight_is_shown() -> None:
    text = "owl " * 30 + "filler words " * 40 + "a barn owl at night " + "more filler " * 40
    weights = {"owl": 1.0, "barn": 2.0, "night": 2.0}
    snippet = make_snippet(_passage(text), weights, analyser=ANALYSER, max_chars=60)
    assert _shown(snippet) == ["barn", "owl", "night"]
    assert snippet.text.startswith("words a barn") or "a barn owl at night" in snippet.text


def test_a_long_word_leaves_no_room_for_context_before_it() -> None:
    text = "the the the the " + "x" * 30 + " the the the the the the"
    snippet = make_snippet(_passage(text), {"x" * 30: 1.0}, analyser=ANALYSER, max_chars=32)
    assert _shown(snippet) == ["x" * 30]


def test_context_on_the_left_never_pushes_out_a_word_of_the_cluster() -> None:
    text = "filler words " * 9 + "owl" + " and" * 10 + " barn" + " filler words" * 9
    snippet = make_snippet(_passage(text), _weights("owl barn"), analyser=ANALYSER, max_chars=50)
    assert _shown(snippet) == ["owl", "barn"]  # 3 + 10 * 4 + 5 = 48 characters


def test_a_snippet_begins_and_ends_with_whole_words() -> None:
    text = " ".join(f"word{number}" for number in range(200)) + " owl " + "tail " * 100
    snippet = make_snippet(_passage(text), {"owl": 1.0}, analyser=ANALYSER, max_chars=100)
    assert set(snippet.text.split()) <= set(text.split()) and _shown(snippet) == ["owl"]


def test_overlapping_pairs_of_unspaced_text_are_one_highlight() -> None:
    text = "今日は東京都庁へ行く"
    snippet = make_snippet(_passage(text), _weights("東京都庁"), analyser=ANALYSER, max_chars=100)
    assert _shown(snippet) == ["東京都庁"]


def test_a_long_unspaced_text_is_cut_within_the_allowance() -> None:
    text = "あいう" * 200 + "東京" + "えお" * 200
    snippet = make_snippet(_passage(text), _weights("東京"), analyser=ANALYSER, max_chars=50)
    assert _shown(snippet) == ["東京"] and len(snippet.text) <= 50


def test_without_a_match_the_beginning_is_shown_unmarked() -> None:
    text = "plain words " * 50
    snippet = make_snippet(_passage(text), {"owl": 1.0}, analyser=ANALYSER, max_chars=60)
    assert snippet.highlights == () and snippet.span.start == 0
    assert text.startswith(snippet.text) and 30 <= len(snippet.text) <= 60


def test_spans_count_from_the_start_of_the_field() -> None:
    field = "first passage here. the owl sits in the second one."
    passage = _passage(field, field.index("the owl"))
    snippet = make_snippet(passage, {"owl": 1.0}, analyser=ANALYSER)
    assert snippet.span == Span(20, len(field)) and snippet.highlights == (Span(4, 7),)


@pytest.mark.parametrize("weights", [{}, {"owl": 0.0}], ids=["none", "zero"])
def test_an_empty_passage_and_no_weights_are_no_obstacle(weights: dict[str, float]) -> None:
    assert make_snippet(_passage(""), weights, analyser=ANALYSER) == Snippet("", Span(0, 0), ())


def test_the_best_passage_holds_most_of_the_weight_and_the_earliest_wins_a_tie() -> None:
    filler = " and so on and so forth for ten words"
    found = [_passage(text + filler) for text in ("nothing", "an owl", "a barn owl", "owl barn")]
    assert PassageChoice({"owl": 1.0, "barn": 1.0}, analyser=ANALYSER).among(found) == found[2]
    assert PassageChoice({"owl": 1.0}, analyser=ANALYSER).among(found) == found[1]
    assert PassageChoice({}, analyser=ANALYSER).among(found) == found[0]
    assert PassageChoice({"owl": 1.0}, analyser=ANALYSER).among([]) is None


def test_nearness_counts_beside_words_or_alone() -> None:
    filler = " and so on and so forth for ten words"
    found = [_passage(text + filler) for text in ("nothing", "an owl", "a bird", "an owl")]
    weights = {"owl": 1.0}
    by_both = PassageChoice(weights, analyser=ANALYSER)
    by_nearness = PassageChoice(weights, analyser=ANALYSER, by_words=False)
    for cosines, both, alone in (
        ([0.1, 0.1, 0.1, 0.4], 3, 3),
        ([0.0, 0.1, 0.5, 0.1], 1, 2),  # 0.8 nearer or less is worth fewer words than one
        ([0.0, 0.1, 0.7, 0.1], 2, 2),
        ([0.3, 0.2], 1, 1),  # vectors of other passages say nothing
    ):
        near = Body(found[0].field, cosines)
        assert by_both.among(found, near=near) == found[both]
        assert by_nearness.among(found, near=near) == found[alone]


def test_where_no_word_stands_the_nearest_passage_is_chosen_not_the_title() -> None:
    body = _passage("the owl hunts at dusk")
    title = replace(body, field="title", text="Barn owl")
    near = Body(body.field, [0.2])
    choice = PassageChoice({"night": 1.0}, analyser=ANALYSER)
    assert choice.among([title, body], near=near) == body
    assert choice.among([title, body]) == title


def test_a_title_counts_in_proportion_to_its_length() -> None:
    title, body = (
        _passage("owl"),
        _passage("the owl hunts at night over fields and woods and rivers"),
    )
    assert PassageChoice({"owl": 1.0}, analyser=ANALYSER).among([title, body]) == body
