"""The questions to manuals, and at which stage an answer to one is said to have failed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.manuals.questions import ManualQuestion, open_manual_questions
from benchmarks.manuals.run import (
    Judged,
    at_threshold,
    choose_threshold,
    failed_stage,
    judge,
    make_rows,
    sum_up_again,
    write,
)

from quoth.answer.config import AnswerConfig
from quoth.records import Answer, Citation, Passage, Span

DOCID = "benchmarks/.cache/manuals/corpus/man/owl.1.txt"
TEXT = "The owl hunts, mostly at night. It has two wings."
ASKED = ManualQuestion("q", "test", "When does it hunt?", ("man/owl.1.txt",), r"(?i)at\s+NIGHT")


def passage(text: str = TEXT, docid: str = DOCID) -> Passage:
    return Passage(docid, "text", Span(0, len(text)), text)


def quoting(words: str, source: Passage) -> Answer:
    start = source.text.index(words)
    citation = Citation(Span(0, len(words)), source, Span(start, start + len(words)))
    return Answer(words, (citation,), (source,), support=0.5)


@pytest.mark.parametrize(
    ("answer", "stage"),
    [
        (quoting("mostly at night", passage()), ""),
        (quoting("The owl hunts", passage()), "writer"),
        (quoting("It has two wings.", passage()), "reader"),
        (quoting("It is a bird.", passage("It is a bird.")), "passages"),
        (quoting("mostly at night", passage(docid="corpus/man/bat.1.txt")), "search"),
    ],
)
def test_a_failure_is_put_down_to_the_first_stage_that_lost_the_answer(
    answer: Answer, stage: str
) -> None:
    assert failed_stage(ASKED, answer) == stage
    refused, spoken = judge(ASKED, answer, refused=True), judge(ASKED, answer, refused=False)
    assert refused == ("refused", stage or "abstention")
    assert spoken == (("wrong", stage) if stage else ("right", ""))


def test_another_threshold_changes_what_is_refused_and_nothing_else() -> None:
    asked = open_manual_questions()
    right = next(each for each in asked if each.is_answerable)
    none = next(each for each in asked if not each.is_answerable)
    rows = [
        Judged(each.qid, "test", "", "", (), 0.5, "", outcome, stage)
        for each, outcome, stage in (
            *((right, "right", ""), (right, "wrong", "reader")),
            (none, "wrong", "abstention"),
        )
    ]
    lower = at_threshold(rows, 0.4)
    assert [each.outcome for each in lower] == ["refused", "refused", "right"]
    assert [each.stage for each in lower] == ["abstention", "reader", ""]
    assert at_threshold(lower, 0.6) == rows


def test_the_threshold_chosen_is_the_lowest_that_withholds_no_right_answer() -> None:
    asked = next(each for each in open_manual_questions() if each.is_answerable)
    rows = [
        Judged(asked.qid, "development", "", "", (), support, "", outcome, stage)
        for support, outcome, stage in (
            *((0.7, "right", ""), (0.625, "right", ""), (0.4, "refused", "abstention")),
            *((0.55, "wrong", "reader"), (0.52, "wrong", "reader")),
        )
    ]
    assert choose_threshold(rows) == pytest.approx(0.38)
    assert choose_threshold(rows, most=0.7) == pytest.approx(0.6)


def test_kept_answers_are_summed_up_again_without_asking(tmp_path: Path) -> None:
    asked = next(each for each in open_manual_questions() if each.is_answerable)
    kept = Judged(asked.qid, "test", "", "", ("a",), 0.45, "", "refused", "abstention")
    rows = make_rows([kept], "hybrid", [0.5])
    write(tmp_path / "kept.json", rows, [kept], {})
    sum_up_again(tmp_path / "kept.json")
    content = json.loads((tmp_path / "kept.json").read_text())
    assert content["rows"][0]["threshold"] == AnswerConfig().threshold
    assert [each["outcome"] for each in content["answers"]] == ["refused"]


def test_where_there_is_no_answer_refusing_is_right() -> None:
    nobody = ManualQuestion("q", "test", "Who asked?", (), "")
    answer = quoting("The owl hunts", passage())
    assert judge(nobody, answer, refused=True) == ("right", "")
    assert judge(nobody, answer, refused=False) == ("wrong", "abstention")


def test_there_are_enough_questions_of_both_kinds_in_both_halves() -> None:
    asked = open_manual_questions()
    counts = Counter((each.split, each.is_answerable) for each in asked)
    assert min(counts.values()) >= 10 and counts["test", True] >= 40
    assert len({each.question for each in asked}) == len(asked) >= 100
    assert all(bool(each.answer) == each.is_answerable for each in asked)
