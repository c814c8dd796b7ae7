"""Queries made of passages, and a reranker's scores mixed with those of the first search."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.reader.mixing import mixed_quality
from benchmarks.reader.pack import Example, Text, ask_foreign
from benchmarks.reader.queries import SHARES, count_words, make_query

TEXT = (
    "The barn owl lives in farmland all over the world. It hunts voles by ear in complete darkness."
    " Pairs breed in buildings and hollow trees every spring. Their nests hold up to seven eggs."
)


def test_every_kind_of_query_belongs_to_what_is_left_of_its_passage() -> None:
    counts = count_words([TEXT])
    made = [make_query("Barn owl", TEXT, counts, np.random.default_rng(at)) for at in range(60)]
    assert {each.kind for each in made if each} == set(SHARES)
    for each in made:
        assert each is not None
        if each.kind == "half":
            assert f"{each.query} {each.passage}" == TEXT
        elif each.kind == "verbose":
            sentence = each.query.removeprefix("Barn owl. ")
            assert sentence in TEXT and sentence not in each.passage
        elif each.kind == "keywords":
            assert set(each.query.split()) <= {"barn", "owl", *counts}
        else:
            assert each.query in TEXT


def test_a_question_is_foreign_where_only_another_passage_of_the_article_answers() -> None:
    own = Text("Owls", "Tawny owls hoot at night.")
    asked = [
        Example("s", "What do barn owls hunt?", Text("Owls", "They hunt voles."), ("voles",)),
        Example("s", "What do tawny owls do?", Text("Owls", "They hoot."), ("hoot",)),
        Example("s", "Who wrote it?", Text("Poe", "Poe wrote it."), ("Poe",)),
    ]
    draws = [list(ask_foreign(own, asked, np.random.default_rng(at))) for at in range(30)]
    found = {each for own in draws for each in own}
    assert asked[0].question in found and all("barn" in each for each in found)
    assert 0 < sum(map(bool, draws)) < 30, "a share of the times"


def test_a_passage_too_short_for_a_query_gives_none() -> None:
    assert make_query("", "Owls.", count_words([]), np.random.default_rng(0)) is None


@pytest.mark.parametrize(
    ("share", "width", "rank"), [(0.0, 0.0, 2), (0.7, 0.0, 1), (0.7, 100.0, 2)]
)
def test_a_usual_range_keeps_small_differences_small(share: float, width: float, rank: int) -> None:
    own = {
        "fused": np.array([[0.9, 0.6, 0.1]]),
        "relevance": np.array([[1.0, 3.0, 2.0]]),
        "grades": np.array([[0, 1, 0]]),
        "ideal": np.array([1.0]),
    }
    found = mixed_quality(own, share=share, depth=3, width=width)
    assert found.tolist() == pytest.approx([1 / np.log2(1 + rank)])
