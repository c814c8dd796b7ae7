"""Citations: ALCE's definitions case by case, statements, two judges, exactness."""

from __future__ import annotations

from itertools import pairwise

import pytest
from benchmarks.citations.pack import Question
from benchmarks.citations.reading_judge import ReadingJudge, labelled
from benchmarks.citations.scores import (
    OverlapJudge,
    Statement,
    cited_statements,
    cut_sentences,
    marked_statements,
    quotation_exactness,
    score_citations,
    without_markers,
)
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import ConfigError
from quoth.records import Answer, Citation, Passage, Span


def _holds_letters(premise: str, statement: str) -> bool:
    """A judge to reason with: every letter of the statement stands in the premise."""
    return set(statement) <= set(premise) | {"\n"}


class TestRecallAndPrecision:
    @pytest.mark.parametrize(
        ("cited", "recall", "precise"),
        [
            ((), 0, 0),
            ((0,), 1, 1),  # alone it entails
            ((2,), 0, 0),  # alone it does not
            ((0, 2), 1, 1),  # the second neither entails nor is needed
            ((1, 2), 1, 2),  # neither entails alone: both are needed
            ((0, 1), 1, 1),
            ((0, 9), 0, 0),  # there is no such passage
        ],
    )
    def test_of_one_statement(self, cited: tuple[int, ...], recall: int, precise: int) -> None:
        passages = ["abc", "ab", "c"]
        scores = score_citations([Statement("abc", cited)], passages, judge=_holds_letters)
        assert scores.recall == recall
        assert scores.precision == (precise / len(cited) if cited else 0)

    def test_statements_and_citations_are_averaged_apart(self) -> None:
        statements = [Statement("a", (0,)), Statement("b", ()), Statement("x", (0, 1))]
        scores = score_citations(statements, ["ab", "c"], judge=_holds_letters)
        assert (scores.recall, scores.precision) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
        assert (scores.num_statements, scores.num_citations) == (3, 3)

    def test_an_answer_without_statements(self) -> None:
        scores = score_citations([], ["a"], judge=_holds_letters)
        assert (scores.recall, scores.precision) == (0.0, 0.0)

    @given(
        statements=st.lists(
            st.tuples(
                st.text("abc", min_size=1, max_size=3),
                st.lists(st.integers(0, 2), max_size=3, unique=True),
            ),
            max_size=4,
        ),
        passages=st.lists(st.text("abc", max_size=3), min_size=3, max_size=3),
    )
    def test_equals_the_definition_spelled_out(
        self, statements: list[tuple[str, list[int]]], passages: list[str]
    ) -> None:
        recalls, precisions = [], []
        for text, cited in statements:
            joined = "".join(passages[each] for each in cited)
            is_entailed = bool(cited) and set(text) <= set(joined)
            recalls.append(is_entailed)
            for each in cited:
                rest = "".join(passages[other] for other in cited if other != each)
                is_idle = not set(text) <= set(passages[each]) and set(text) <= set(rest)
                precisions.append(is_entailed and (len(cited) == 1 or not is_idle))
        found = score_citations(
            [Statement(text, tuple(cited)) for text, cited in statements],
            passages,
            judge=_holds_letters,
        )
        assert found.recall == pytest.approx(sum(recalls) / max(1, len(recalls)))
        assert found.precision == pytest.approx(sum(precisions) / max(1, len(precisions)))


class TestStatements:
    def test_markers_belong_to_the_sentence_they_close(self) -> None:
        found = marked_statements("It rose in 1990.[2] Then it fell [1][2] again [1]. No source.")
        assert [each.cited for each in found] == [(1,), (0, 1), ()]
        assert [each.text for each in found] == [
            "It rose in 1990.",
            "Then it fell again.",
            "No source.",
        ]

    def test_brackets_around_anything_else_stay(self) -> None:
        assert without_markers("a [b] c[1234] [12]") == "a [b] c[1234]"

    @given(text=st.text("ab .!?\n[1]A\"'", max_size=40))
    def test_sentences_hold_all_that_is_not_white_space(self, text: str) -> None:
        spans = cut_sentences(text)
        pieces = [text[span.start : span.end] for span in spans]
        assert "".join("".join(pieces).split()) == "".join(text.split())
        assert all(piece == piece.strip() and piece for piece in pieces)
        assert all(one.end <= two.start for one, two in pairwise(spans))

    def test_abbreviations_end_no_sentence(self) -> None:
        text = "Mr. Smith met J. Doe at 5 p.m. in Rome. They ate."
        pieces = [text[span.start : span.end] for span in cut_sentences(text)]
        assert pieces == ["Mr. Smith met J. Doe at 5 p.m. in Rome.", "They ate."]

    def test_a_citation_across_sentences_counts_for_both(self) -> None:
        passage = Passage("d", "text", Span(0, 12), "One. Two it.")
        answer = Answer("One. Two it. Three.", (Citation(Span(0, 8), passage, Span(0, 8)),))
        assert [each.cited for each in cited_statements(answer, [4])] == [(4,), (4,), ()]


class TestOverlapJudge:
    @pytest.mark.parametrize(
        ("premise", "statement", "is_entailed"),
        [
            ("It opened in 1902 in Paris.", "It opened in 1903 in Paris.", False),
            ("It opened in 1902 in Paris.", "It opened in 1902 in London.", False),
            ("It opened in 1902 in Paris.", "The opened in 1902 was it, in Paris", True),
            ("red green blue white", "red green blue white black", True),  # 4 of 5
            ("red green blue", "red green blue black", False),  # 3 of 4
            ("anything", "of the and", False),
            ("3.5 km", "3.5 km", True),
        ],
    )
    def test_words_numbers_and_names(self, premise: str, statement: str, is_entailed: bool) -> None:
        assert OverlapJudge(threshold=0.8)(premise, statement) is is_entailed

    def test_threshold_is_a_share(self) -> None:
        with pytest.raises(ConfigError, match=r"threshold is 0\.0"):
            OverlapJudge(threshold=0.0)


def test_exactness_slices_both_sides() -> None:
    passage = Passage("d", "text", Span(0, 11), "blue nile x")
    exact = Citation(Span(4, 13), passage, Span(0, 9))
    shifted = Citation(Span(4, 13), passage, Span(1, 10))
    answer = Answer("The blue nile", (exact, shifted))
    assert quotation_exactness([answer]) == pytest.approx(1 / 2)
    assert quotation_exactness([Answer("nothing", ())]) == 1.0


class TestReadingJudge:
    """Support by answers: a reader that finds the first number of a text stands in."""

    @pytest.mark.parametrize(
        ("statement", "is_supported"),
        [
            ("It rose to 1902 metres.", True),
            ("In 1850 nothing rose.", False),
            ("Nothing rose.", False),
        ],
    )
    def test_a_statement_is_supported_where_it_answers_as_its_passage_does(
        self, statement: str, is_supported: bool
    ) -> None:
        judge = ReadingJudge(_first_number).for_question("How high?")
        assert judge("At 1902 metres, in 1850.", statement) is is_supported

    def test_sentences_are_labelled_where_a_passage_holds_both_kinds(self) -> None:
        passages = ("Owls hunt at dusk. They eat mice.", "At dusk.", "They sleep. They eat.")
        question = Question("s", "1", "When?", ("",) * 3, passages, short_answers=(("dusk",),))
        assert [(sentence, is_right) for *_rest, sentence, is_right in labelled([question])] == [
            ("Owls hunt at dusk.", True),
            ("They eat mice.", False),
        ]


def _first_number(_question: str, text: str) -> str:
    return next((word for word in text.split() if word.isdigit()), "")
