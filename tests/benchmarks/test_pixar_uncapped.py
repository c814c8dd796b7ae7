"""Runs that differ in their seed are one row, compared with phrases trained alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.pixar_quality.uncapped import PHRASES, Kind, Scores, average, describe

WAY = "ordered.max"


def _scores(*reciprocals: float) -> Scores:
    measured = np.array(reciprocals)
    return {WAY: {"RR@10": measured, "R@5": measured, "R@100": measured}}


def _trial(seed: int) -> dict[str, Any]:
    return {"recipe": {"seed": seed}, "slots": 64, "curve": [{}, {"seconds": 2.5}]}


def test_seeds_are_averaged_query_by_query() -> None:
    mean = average([_scores(1.0, 0.0), _scores(0.5, 0.5)])
    assert mean[WAY]["RR@10"].tolist() == [0.75, 0.25]


def test_a_ranking_that_one_seed_lacks_is_left_out() -> None:
    more = {**_scores(1.0), "ordered.seal": _scores(1.0)[WAY]}
    assert set(average([more, _scores(1.0)])) == {WAY}


def test_subwords_are_compared_with_phrases_trained_alike() -> None:
    subwords, phrases = Kind("bpe", "bags", "{}"), Kind(PHRASES, "bags", "{}")
    means = {subwords: _scores(0.0, 0.5), phrases: _scores(1.0, 0.5)}
    row = describe(subwords, [_trial(1), _trial(0)], means)
    against = row["rankings"][WAY]["against"]
    assert against["mean"] == -0.5 and against["low"] <= -0.5 <= against["high"]
    assert (row["seeds"], row["slots"], row["seconds"]) == ([0, 1], 64, 5.0)
    alone = describe(phrases, [_trial(0)], means)["rankings"][WAY]
    assert alone["RR@10"] == pytest.approx(0.75) and "against" not in alone


def test_what_is_left_out_is_compared_with_all() -> None:
    assert Kind(PHRASES, "no_slots", "{}").basis == Kind(PHRASES, "all", "{}")
    assert Kind(PHRASES, "all", '{"tail": "pad"}').basis == Kind(PHRASES, "all", "{}")
    assert Kind("wordpiece", "all", "{}").basis == Kind(PHRASES, "all", "{}")
