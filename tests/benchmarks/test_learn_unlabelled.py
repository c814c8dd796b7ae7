"""How often a passage is relevant and not labelled is what drawing every label would give."""

from __future__ import annotations

from statistics import fmean

import pytest
from benchmarks.learn.unlabelled import (
    choose_examples,
    count,
    first_as_good,
    first_unlabelled,
    mined_unlabelled,
)

GRADES = {"a": 3, "b": 2, "c": 2, "d": 1, "e": 0}
LABELS = ("a", "b", "c")


@pytest.mark.parametrize("best", ["a", "b", "d", "unjudged"])
def test_shares_are_means_over_all_labels(best: str) -> None:
    found = [best, "c", "e"]
    relevant = [fmean(best != label and best in LABELS for label in LABELS)]
    as_good = [best != label and GRADES.get(best, 0) >= GRADES[label] for label in LABELS]
    mined = [sum(hit in LABELS and hit != label for hit in found) / 3 for label in LABELS]
    assert first_unlabelled(found, GRADES) == pytest.approx(relevant[0])
    assert first_as_good(found, GRADES) == pytest.approx(fmean(as_good))
    assert mined_unlabelled(found, GRADES) == pytest.approx(fmean(mined))


def test_queries_without_a_relevant_passage_do_not_count() -> None:
    told = count([["b"], ["x"]], [GRADES, {"x": 1}])
    assert told["first"]["mean"] == pytest.approx(2 / 3, abs=1e-4)
    assert told["first"]["low"] == told["first"]["high"]


def test_examples_are_the_first_by_number_whose_first_hit_is_as_good() -> None:
    queries = [("30", "late"), ("4", "early"), ("7", "worse"), ("5", "the label itself")]
    grades = [GRADES, {"a": 2, "b": 2}, {"a": 3, "b": 1}, {"a": 3}]
    texts = {docid: f"text of {docid}" for docid in "abcde"}
    found = [["a"], ["c"], ["b"], ["a"]]
    grades[1] = {"a": 2, "c": 3}
    told = choose_examples(queries, found, grades, texts)
    assert "7" not in {each["qid"] for each in told} and "5" not in {each["qid"] for each in told}
    assert [each["qid"] for each in told] == sorted((each["qid"] for each in told), key=int)
    for each in told:
        assert each["label"] != each["best"]
