"""Fitting when to abstain: what counts as right, and fits that have not seen what they judge."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.citations.calibrate import AskedQuestions, is_right, left_out_losses
from benchmarks.citations.pack import Question

from quoth.records import Answer, Citation, Passage, Span

OWLS = "Barn owls hunt at Night. They nest in towers."
HENS = "Hens sleep at night."


def quoting(*quoted: str) -> Answer:
    """Return an answer that quotes stretches of the two passages."""
    passages = [Passage(str(at), "text", Span(0, len(t)), t) for at, t in enumerate((OWLS, HENS))]
    citations, begin = [], 0
    for text in quoted:
        (passage,) = [each for each in passages if text in each.text]
        start = passage.text.index(text)
        span = Span(begin, begin + len(text))
        citations.append(Citation(span, passage, Span(start, start + len(text))))
        begin += len(text) + 1
    return Answer(" ".join(quoted), tuple(citations), tuple(passages))


@pytest.mark.parametrize(
    ("answers", "quoted", "expected"),
    [
        (("night",), ("Barn owls hunt at Night.",), True),
        (("night",), ("They nest in towers.",), False),
        (("towers", "barns"), ("Hens sleep", "in towers."), True),
        ((OWLS,), ("They nest in towers.",), True),
        ((OWLS,), ("Hens sleep at night.",), False),
        (("Barn owls hunt at night. Or not.",), ("Barn owls",), False),
        ((), ("Barn owls",), False),
    ],
)
def test_right_is_what_quotes_an_answer_or_a_part_of_a_passage_that_is_one(
    answers: tuple[str, ...], quoted: tuple[str, ...], expected: bool
) -> None:
    question = Question("own", "squad.0.0", "?", ("", ""), (OWLS, HENS), (answers,))
    assert is_right(question, quoting(*quoted)) is expected


def make_asked(*, flipped: str) -> AskedQuestions:
    """Return questions of two sources, in one of which the sign speaks the other way."""
    chance = np.random.default_rng(0)
    questions = [
        Question(
            ("own", "cut", "found", "absent")[at % 4], f"{'ab'[at // 4 % 2]}.{at}.0", "?", (), ()
        )
        for at in range(400)
    ]
    rights = np.array([each.set in ("own", "found") for each in questions])
    signs = np.where(rights, 1.0, -1.0) + chance.normal(size=400)
    sources = np.array([each.qid[0] for each in questions])
    signs = np.where(sources == flipped, -signs, signs)
    return AskedQuestions.of(questions, signs[:, None], rights, ("score",))


def test_a_source_is_judged_by_a_fit_to_the_others() -> None:
    same, apart = make_asked(flipped=""), make_asked(flipped="b")
    silence = same.without(("score",), same.sources)
    assert silence[~same.rights].mean() > 0.7 > 0.3 > silence[same.rights].mean()
    seen = same.sources == "a"
    fitted = apart.fit(("score",), apart.sources == "a")
    found = apart.without(("score",), apart.sources)[~seen]
    assert found == pytest.approx(fitted.probabilities(apart.signs[~seen]))
    losses = [left_out_losses(each, ("score",))["by_source"] for each in (same, apart)]
    assert losses[0] < 0.5 < np.log(2) < losses[1]
