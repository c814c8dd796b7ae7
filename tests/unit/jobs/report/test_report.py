"""A learning report: kept and read back, refused where it is not one, and told in words."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from learning_reports import make_report
from rich.console import Console

from quoth.cli.train_reports import render_report
from quoth.errors import Damaged, EvaluationError
from quoth.jobs.report.report import Estimate, LearningReport, Quality, estimate, paired_difference
from quoth.jobs.report.words import by_how_much, headline, how_it_knows, main_quality


def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(make_report().to_record()))
    return record


def test_a_report_survives_json() -> None:
    assert LearningReport.from_record(_record()) == make_report()
    assert LearningReport.from_record(make_report().to_record()) == make_report()


def test_whole_numbers_are_read_as_numbers() -> None:
    record = _record() | {"seconds": 893}
    assert isinstance(LearningReport.from_record(record).seconds, float)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("seed",), 1.5, "report.seed is '1.5', expected a value of type int"),
        (("seed",), True, "report.seed is 'True', expected a value of type int"),
        (("installed",), 1, "report.installed is '1', expected a value of type bool"),
        (("collection",), None, "report.collection is 'None', expected a value of type str"),
        (("seconds",), float("nan"), "report.seconds is 'nan', expected a finite number"),
        (("seconds",), "9", "report.seconds is '9', expected a finite number"),
        (("leak",), [1.0], "report.leak is .*, expected names with values"),
        (("leak", "x"), "y", "report.leak.x is 'y', expected a finite number"),
        (("stages",), "warm-up", "report.stages is 'warm-up', expected a list"),
        (("stages", 2, "curve", 0), [1], r"report.stages\[2\].curve\[0\] is .*, expected 2 values"),
        (("quality", 0, "after"), None, r"report.quality\[0\].after is 'None', expected names"),
        (("quality", 0, "before"), {"mean": 0.5}, r"before lacks 'high', 'low'"),
        (("surprise",), 1, "report has besides 'surprise'"),
    ],
)
def test_a_record_of_another_make_is_damaged(
    path: tuple[Any, ...], value: object, expected: str
) -> None:
    record = _record()
    place: Any = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(Damaged, match=expected) as error:
        LearningReport.from_record(record)
    assert "run the job again" in str(error.value)


@pytest.mark.parametrize("field", list(make_report().to_record()))
def test_every_field_is_needed(field: str) -> None:
    record = _record()
    del record[field]
    with pytest.raises(Damaged, match=f"report lacks '{field}'"):
        LearningReport.from_record(record)


@pytest.mark.parametrize("record", [None, [], "report", 7])
def test_what_is_no_record_is_damaged(record: object) -> None:
    with pytest.raises(Damaged, match="no report of this version"):
        LearningReport.from_record(record)


# --- Estimates ------------------------------------------------------------------------------------


def test_an_estimate_holds_its_mean_and_depends_on_its_seed_alone() -> None:
    values = [0.0, 1.0, 0.5, 0.25, 1.0, 0.0, 0.0, 1.0]
    found = estimate(values, seed=3)
    assert found.mean == pytest.approx(sum(values) / 8) and found.low < found.mean < found.high
    assert estimate(values, seed=3) == found != estimate(values, seed=4)


def test_a_difference_is_paired_by_query() -> None:
    before = [0.1 * at for at in range(10)]
    after = [each + 0.05 for each in before]
    found = paired_difference(before, after, seed=0)
    assert (found.mean, found.low, found.high) == pytest.approx((0.05, 0.05, 0.05))
    assert paired_difference(after, before, seed=0).mean == pytest.approx(-0.05)


def test_scores_that_are_not_paired_are_refused() -> None:
    with pytest.raises(EvaluationError):
        paired_difference([0.5], [0.5, 0.5], seed=0)
    with pytest.raises(EvaluationError):
        estimate([], seed=0)


# --- In words -------------------------------------------------------------------------------------


def test_the_verdict_says_by_how_much_and_whether_it_may_be_chance() -> None:
    hybrid, dense = by_how_much(make_report())
    assert hybrid == (
        "Hybrid search on 300 known items went from RR@10 0.561 to 0.579: +0.018 (−0.002 to"
        " +0.039); the interval holds 0, so it may be chance."
    )
    assert dense.endswith("the interval does not hold 0, so it is hardly chance.")
    assert headline(make_report()).startswith("Installed")
    aside = make_report(installed=False)
    assert headline(aside) == "Kept aside: search is as it was."
    twice = "looks at its best hits a second time"
    assert headline(replace(aside, second_look=True)) == f"From now on search {twice}."
    assert headline(replace(make_report(), second_look=True)).endswith(f"new encoder, and {twice}.")
    assert "(300 known items, 280 pseudo-queries, 40 labelled pairs)" in how_it_knows(make_report())


def test_what_did_not_exist_before_is_said_to_be_new() -> None:
    row = Quality("dense", "known items", 9, "RR@10", None, Estimate(0.5, 0.4, 0.6), None)
    (told,) = by_how_much(replace(make_report(), quality=(row,)))
    assert "reaches RR@10 0.500 (0.400 to 0.600); it did not exist before" in told
    (told,) = by_how_much(replace(make_report(), quality=()))
    assert "Nothing could be measured" in told


def test_rows_that_can_be_compared_go_before_those_that_cannot() -> None:
    row = main_quality(make_report().quality, searcher="dense")
    assert row is not None and row.queries == "known items"
    assert main_quality(make_report().quality, searcher="generative") is None


def _print(report: LearningReport) -> str:
    stream = io.StringIO()
    Console(file=stream, width=160, highlight=False, color_system=None).print(render_report(report))
    return stream.getvalue()


def test_the_terminal_shows_everything_that_was_found() -> None:
    shown = _print(make_report())
    for expected in (
        "Installed",
        "dense, known items, low overlap",
        "+0.071 (+0.028 to +0.115)",
        "two checks brought nothing better",
        "judged queries that were trained on",
        "kept after round trip",
        "how do barn owls hunt at night",
        "No one labelled anything",
        "all-MiniLM-L6-v2",
        "14 min 53 s",
    ):
        assert expected in shown, expected


def test_nothing_in_a_report_can_command_the_terminal() -> None:
    hostile = "\x1b[2J [red]x[/red] \u202e"
    report = replace(
        make_report(title=hostile),
        examples=((hostile, (hostile,)),),
        reason=hostile,
        supervision=hostile,
        leak={hostile: 1.0},
        encoder_after=hostile,
    )
    shown = _print(report)
    assert "\x1b" not in shown and "\u202e" not in shown and "[red]x[/red]" in shown


def test_an_empty_report_can_be_shown() -> None:
    empty = replace(
        make_report(), quality=(), stages=(), leak={}, identifiers={}, examples=(),
        num_queries_by_kind={},
    )  # fmt: skip
    assert "queries made: none" in _print(empty)
