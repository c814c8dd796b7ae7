"""Measures of generated text against brute force and hand-computed values."""

from __future__ import annotations

import math

import pytest
from benchmarks.generation.scores import (
    bytes_per_unit,
    cut_to_shorter,
    cut_words,
    diversity,
    mean_repetition,
    perplexity,
    repetition,
)
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import EvaluationError

WORDS = st.lists(st.sampled_from("abc"), max_size=12)


class TestRepetition:
    @given(words=WORDS, n=st.integers(1, 4))
    def test_counts_the_grams_that_stood_before(self, words: list[str], n: int) -> None:
        grams = [words[at : at + n] for at in range(len(words) - n + 1)]
        repeated = sum(gram in grams[:at] for at, gram in enumerate(grams))
        assert repetition(words, n=n) == pytest.approx(repeated / max(1, len(grams)))

    def test_diversity_multiplies_means_not_texts(self) -> None:
        texts = [["a"] * 5, ["a", "b", "c", "d", "e"]]
        # rep-2 = 3/4, rep-3 = 2/3, rep-4 = 1/2 of the first text, 0 of the second.
        means = [(3 / 4) / 2, (2 / 3) / 2, (1 / 2) / 2]
        assert [mean_repetition(texts, n=n) for n in (2, 3, 4)] == pytest.approx(means)
        assert diversity(texts) == pytest.approx(math.prod(1 - mean for mean in means))

    @given(first=WORDS, second=WORDS)
    def test_cutting_keeps_the_beginnings(self, first: list[str], second: list[str]) -> None:
        one, two = cut_to_shorter(first, second)
        assert len(one) == len(two) == min(len(first), len(second))
        assert (list(one), list(two)) == (first[: len(one)], second[: len(two)])


def test_words_lose_nothing_but_white_space() -> None:
    text = "«Ünï»  3,5\n– it's_one"
    assert "".join(cut_words(text)) == "".join(text.split())


class TestUnits:
    def test_bytes_are_those_of_utf_8(self) -> None:
        assert bytes_per_unit(["ab", "日本"], [1, 3]) == pytest.approx((2 + 6) / 4)

    @pytest.mark.parametrize(("texts", "units"), [(["a"], [0]), (["a", "b"], [1]), ([], [])])
    def test_what_cannot_be_divided(self, texts: list[str], units: list[int]) -> None:
        with pytest.raises(EvaluationError, match="expected one count per text"):
            bytes_per_unit(texts, units)


class TestPerplexity:
    @given(chances=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
    def test_is_the_inverse_geometric_mean(self, chances: list[float]) -> None:
        product = math.prod(chances) ** (-1 / len(chances))
        assert perplexity([math.log(chance) for chance in chances]) == pytest.approx(product)

    def test_of_nothing(self) -> None:
        with pytest.raises(EvaluationError, match="without subwords"):
            perplexity([])
