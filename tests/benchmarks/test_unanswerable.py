"""Training questions without an answer: every kind lacks what it says it lacks."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.citations.unanswerable import Asked, Scene, holds, make_cases, swap

SCENE = Scene(
    "The barn owl hunts at night. It nests in old towers. Its cry is called a screech.",
    ("Hens sleep at night.", "Swifts sleep on the wing.", "Ravens of Ravenna speak.", "No."),
    (Asked("Where does the Barn Owl nest?", ("old towers",)), Asked("What cries?", ("screech",))),
    (
        Asked("Who sleeps in old towers?", ("old towers",)),
        Asked("What do Parisian ravens eat?", ("corn",)),
    ),
)


@pytest.mark.parametrize("seed", range(6))
def test_each_kind_lacks_the_answer(seed: int) -> None:
    cases = make_cases(SCENE, seed=seed)
    kinds = {case.kind for case in cases}
    assert kinds == {"own", "neighbours", "cut", "article", "swapped"}
    assert len({len(case.passages) for case in cases}) == 1
    asked = {each.text.lower().rstrip("?"): each for each in (*SCENE.asked, *SCENE.others)}
    for case in cases:
        known = asked.get(case.question.lower().rstrip("?"))
        assert case.is_answerable == (case.kind == "own")
        assert bool(case.answers) == case.is_answerable
        assert not case.answers or holds(case.passages, case.answers)
        if case.kind == "swapped":
            assert known is None and SCENE.passage in case.passages
        else:
            assert known is not None
            assert holds(case.passages, known.answers) == case.is_answerable
    cut = next(case for case in cases if case.kind == "cut")
    assert "The barn owl hunts at night. Its cry is called a screech." in cut.passages
    assert [case.kind for case in cases if case.passages == cut.passages] == ["cut", "own"]


def test_scenes_with_few_neighbours_make_no_cases() -> None:
    near = ("In old towers.", "Hens.", "Owls.")
    assert make_cases(Scene(SCENE.passage, near, SCENE.asked, ()), seed=0) == []


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("When was 1970?", "It was 1981, or 7.", {"When was 1981?"}),
        ("Did houses eat?", "So many glasses spoken.", {"Did glasses eat?"}),
        ("Who was in Rome?", "Who was in Rome.", {""}),
        ("Why?", "Ravens in Padua, 7 houses.", {""}),
    ],
)
def test_what_is_swapped_is_of_the_same_kind(question: str, text: str, expected: set[str]) -> None:
    found = {swap(question, [text], np.random.default_rng(seed)) for seed in range(8)}
    assert found == expected
