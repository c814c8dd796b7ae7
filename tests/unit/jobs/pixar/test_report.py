"""The report of `quoth train pixar`: kept whole, and shown in words."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from quoth.cli.train_reports import render_generative
from quoth.errors import Damaged
from quoth.jobs.pixar.report import GenerativeReport, JudgedKind, verdict


def make_report(*, installed: str = "trained") -> GenerativeReport:
    return GenerativeReport(
        collection="notes.quoth",
        model="generative/pixar",
        device="cpu",
        seed=3,
        num_documents=1200,
        num_unnamed=17,
        num_identifiers=7207,
        num_phrases=3462,
        num_slots=12,
        mean_length=5.25,
        num_inputs=6929,
        steps=82,
        batch_size=64,
        first_loss=9.5,
        last_loss=7.25,
        method="full",
        judged=(JudgedKind("pseudo-queries", 240, 0.81, 0.41, 0.52),),
        installed=installed,
        megabytes=101.5,
        seconds={"phrases": 3.0, "training": 90.0},
        best_step=66,
    )


def test_it_is_read_back() -> None:
    report = make_report()
    assert GenerativeReport.from_record(json.loads(json.dumps(report.to_record()))) == report
    record = report.to_record()
    del record["steps"]
    with pytest.raises(Damaged, match="steps"):
        GenerativeReport.from_record(record)
    with pytest.raises(Damaged, match="judged"):
        GenerativeReport.from_record({})


def test_it_says_what_was_reached_and_how_to_search() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_generative(make_report()))
    text = console.export_text()
    for expected in (
        "0.4100",
        "0.5200",
        "0.8100",
        "7,207",
        "3,462",
        "--with generative",
        "17",
        "after 66",
    ):
        assert expected in text
    assert "Installed the trained model" in verdict(make_report())
    assert "untrained, as training did not better it" in verdict(make_report(installed="untrained"))


def test_learn_shows_its_main_numbers() -> None:
    assert make_report().values() == {
        "phrases": 3462.0,
        "identifiers": 7207.0,
        "steps": 82.0,
        "RR@10 of pseudo-queries, untrained": 0.41,
        "RR@10 of pseudo-queries, trained": 0.52,
    }
