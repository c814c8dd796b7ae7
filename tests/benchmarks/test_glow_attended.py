"""What is counted of the words that GLOW looks at: words of the question, averaged over seeds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.glow.attended import heaviest, mean_products, share_wanted, spoken
from benchmarks.glow.attended_report import over_seeds, sum_up

from quoth.models.glow.inputs import SubwordSequence, SurfaceWords
from quoth.text.words import Analyser, AnalyserConfig

SURFACE = SurfaceWords(("Barn", "owls", ",", "owls"), (-1, 0, 1, 1, 2, 3, -1))


def test_words_are_of_the_question_by_their_terms() -> None:
    analyser = Analyser(AnalyserConfig())
    wanted = frozenset(analyser.terms("owl hunting"))
    assert share_wanted(["owls", "hunted", "barn", "the"], wanted, analyser) == 2 / 4


def test_the_heaviest_words_are_listed_once_and_without_punctuation() -> None:
    weights = [9.0, 1.0, 0.5, 2.0, 9.0, 3.0, 9.0]
    assert heaviest(SubwordSequence([0] * 7, weights, [0] * 7, 0), SURFACE) == ["owls", "barn"]
    assert {word for _at, word in spoken(SURFACE)} == {"barn", "owls"}


def test_products_are_means_over_the_other_tokens() -> None:
    states = torch.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]])
    assert mean_products(states) == pytest.approx([(3 + 2) / 2, (3 + 0) / 2, (2 + 0) / 2])


def run(arm: str, seed: int, scores: list[float], *, steps: int = 2) -> dict[str, Any]:
    return {
        "arm": arm,
        "seed": seed,
        "steps": steps,
        "seconds": 1.0,
        "loss": 0.5,
        "shown": [f"{arm} {seed}"],
        "scores": {name: scores for name in ("attention", "products", "RR@10")},
    }


def test_arms_are_compared_on_the_seeds_that_both_have() -> None:
    runs = [
        run("none", 0, [0.0, 0.2]),
        run("row", 0, [0.2, 0.4]),
        run("row", 1, [0.6, 0.8]),
        run("row", 0, [0.0, 0.0], steps=0),
    ]
    rows = {row["arm"]: row for row in sum_up(runs, {"chance": [0.5, 0.5]})["arms"]}
    assert rows["row"]["attention"]["mean"] == pytest.approx(0.5)
    assert rows["row"]["attention against none"]["difference"] == pytest.approx(0.2)
    assert rows["row"]["shown"] == ["row 0"]
    assert "attention against none" not in rows["row, untrained"]
    assert rows["chance"]["attention"] == {"mean": 0.5, "low": 0.5, "high": 0.5}
    assert over_seeds(runs[1:3], "RR@10") == pytest.approx([0.4, 0.6])
