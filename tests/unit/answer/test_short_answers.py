"""The short answer that agrees best with all that are likely, and stands in what is quoted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.answer.short_answers import LikelyAnswer, choose_short, expected_agreement
from quoth.records import Span
from quoth.vocabulary.dynamic import Source

WHOLE = Source(0, Span(0, 1_000))
WORDS = st.lists(st.sampled_from(["barn", "owl", "of", "ravenna", "hen"]), min_size=1, max_size=4)


def likely(text: str, probability: float, *, at: int = 0, passage: int = 0) -> LikelyAnswer:
    return LikelyAnswer(Source(passage, Span(at, at + len(text))), text, probability)


def test_what_most_speak_for_beats_the_most_probable_one() -> None:
    answers = [
        likely("the hen", 0.3),
        likely("barn owl", 0.25),
        likely("a barn owl of Ravenna", 0.25),
        likely("the barn owl", 0.2),
    ]
    found = choose_short(answers, [WHOLE])
    assert found is not None and found.text == "barn owl"
    assert found.probability == pytest.approx(0.45), "articles do not tell answers apart"


def test_only_what_is_quoted_whole_is_marked() -> None:
    answers = [
        likely("hen", 0.6, at=50),
        likely("owl", 0.3, at=10),
        likely("owl", 0.1, at=7, passage=1),
    ]
    quoted = [Source(0, Span(8, 40)), Source(1, Span(0, 9))]
    found = choose_short(answers, quoted)
    assert found is not None and found.source == Source(0, Span(10, 13))
    assert found.probability == pytest.approx(0.4), "what says the same elsewhere speaks for it"
    assert choose_short(answers, [Source(2, Span(0, 99))]) is None
    assert choose_short([], [WHOLE]) is None


@given(st.lists(st.tuples(WORDS, st.floats(0.0, 1.0)), min_size=1, max_size=6))
def test_agreement_is_that_of_every_pair(rows: list[tuple[list[str], float]]) -> None:
    words, weights = [tuple(own) for own, _weight in rows], [weight for _own, weight in rows]
    expected = [
        sum(w * (_f1(own, other) + (own == other)) for other, w in zip(words, weights, strict=True))
        for own in words
    ]
    assert expected_agreement(words, np.array(weights)).tolist() == pytest.approx(expected)


def _f1(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    left = list(other)
    shared = 0
    for word in one:
        if word in left:
            left.remove(word)
            shared += 1
    return 2 * shared / (len(one) + len(other))
