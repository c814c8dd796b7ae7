"""Answers against references: SQuAD's cases, ROUGE-L by brute force, ALCE's recall."""

from __future__ import annotations

from itertools import combinations

import pytest
from benchmarks.citations.answers import (
    exact_match,
    normalise,
    quotation_f1,
    rouge_l,
    short_answer_recall,
    word_f1,
)
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=7)


def _is_subsequence(words: tuple[str, ...], of: list[str]) -> bool:
    rest = iter(of)
    return all(word in rest for word in words)


class TestRougeL:
    @given(own=WORDS, wanted=WORDS)
    def test_equals_brute_force(self, own: list[str], wanted: list[str]) -> None:
        longest = max(
            size
            for size in range(len(own) + 1)
            if any(_is_subsequence(each, wanted) for each in combinations(own, size))
        )
        precision, recall = longest / len(own), longest / len(wanted)
        expected = 2 * precision * recall / (precision + recall) if longest else 0.0
        assert rouge_l(" ".join(own), [" ".join(wanted)]) == pytest.approx(expected)

    def test_takes_the_best_reference(self) -> None:
        assert rouge_l("a b", ["c", "b a b"]) == pytest.approx(2 * 2 / (2 + 3))
        assert rouge_l("a", []) == rouge_l("", ["a"]) == 0.0


class TestWords:
    @pytest.mark.parametrize(
        ("answer", "reference", "f1"),
        [
            ("the the cat", "cat", 1.0),
            ("cat cat", "cat", 2 * 1 / (2 + 1)),
            ("Denver Broncos", "denver broncos!", 1.0),
            ("", "", 1.0),
            ("a", "dog", 0.0),
        ],
    )
    def test_f1_counts_repeats_and_drops_articles(
        self, answer: str, reference: str, f1: float
    ) -> None:
        assert word_f1(answer, [reference]) == pytest.approx(f1)

    @given(text=st.text(max_size=30))
    def test_normalising_twice_is_normalising_once(self, text: str) -> None:
        assert normalise(normalise(text)) == normalise(text)

    def test_exact_match_wants_all(self) -> None:
        assert exact_match("The Blue Nile", ["blue nile."]) == 1.0
        assert exact_match("The Blue Nile", ["nile"]) == 0.0


class TestShortAnswers:
    def test_counts_sub_questions_not_aliases(self) -> None:
        wanted = [["Daei", "Ali Daei"], ["Bican"], ["Christine Sinclair", "Sinclair"]]
        assert short_answer_recall("Ali Daei and sinclair.", wanted) == pytest.approx(2 / 3)

    def test_empty_ones_do_not_count(self) -> None:
        assert short_answer_recall("anything", [["the"], ["anything"]]) == 1.0
        assert short_answer_recall("anything", []) == 0.0


class TestQuotations:
    def test_a_source_that_only_one_side_quotes_counts_nothing(self) -> None:
        assert quotation_f1({0: "blue nile"}, {0: "blue nile", 3: "amazon"}) == pytest.approx(0.5)
        assert quotation_f1({}, {}) == 1.0
