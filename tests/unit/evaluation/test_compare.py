"""Runs against a baseline, and the tables made of that."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from quoth.errors import EvaluationError
from quoth.evaluation.compare import (
    Comparison,
    as_csv,
    as_json,
    as_latex,
    compare,
    escape_latex,
    table_rows,
    write_comparison,
)
from quoth.evaluation.significance import holm, mean_interval, randomisation_test
from quoth.records import Hit, Qrels, Run

QIDS = [f"q{i}" for i in range(10)]
QRELS = Qrels({qid: {"good": 1} for qid in QIDS})


def run_of(name: str, good_ranks: list[int]) -> Run:
    """Place the relevant document at the given rank for each query."""
    hits = {}
    for qid, rank in zip(QIDS, good_ranks, strict=True):
        docids = [*(f"bad{i}" for i in range(rank - 1)), "good"]
        hits[qid] = tuple(Hit(docid, -float(i)) for i, docid in enumerate(docids))
    return Run(name, hits)


WORST = run_of("base_line", [4] * 10)
BEST = run_of("best & 100%", [1] * 9 + [2])
MIXED = run_of("mixed", [4] * 8 + [2, 5])


def comparison_of(**options: object) -> Comparison:
    return compare(
        [WORST, BEST, MIXED],
        QRELS,
        ["RR@10", "Hits@1"],
        baseline="base_line",
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return comparison_of()


def test_rows_by_measure_then_run(comparison: Comparison) -> None:
    assert [(row.measure, row.run_name) for row in comparison.rows] == [
        (measure, name)
        for measure in ("RR@10", "Hits@1")
        for name in ("base_line", "best & 100%", "mixed")
    ]
    assert comparison.num_queries == 10


def test_arithmetic(comparison: Comparison) -> None:
    row = comparison.rows[1]
    assert row.mean == pytest.approx((9 * 1 + 1 / 2) / 10)
    assert row.interval == mean_interval([1.0] * 9 + [0.5])
    assert row.contrast is not None
    assert row.contrast.difference == pytest.approx((9 * 3 / 4 + 1 / 4) / 10)
    # All ten differences are positive: only the two patterns of one sign are as extreme.
    assert row.contrast.p_value == 2 / 2**10
    assert row.contrast.interval.low > 0
    assert row.contrast.significant
    assert comparison.rows[0].contrast is None


def test_the_family_is_all_runs_and_measures(comparison: Comparison) -> None:
    contrasts = [row.contrast for row in comparison.rows if row.contrast is not None]
    assert len(contrasts) == 2 * 2
    corrected = holm([contrast.p_value for contrast in contrasts])
    assert tuple(contrast.corrected_p_value for contrast in contrasts) == corrected


def test_the_test_is_the_one_asked_for() -> None:
    student = comparison_of(test="t", correction="none")
    contrast = student.rows[2].contrast
    assert contrast is not None and contrast.p_value == contrast.corrected_p_value
    scores = [1 / 4] * 8 + [1 / 2, 1 / 5]
    assert contrast.p_value != randomisation_test(scores, [1 / 4] * 10)


def test_same_seed_same_comparison(comparison: Comparison) -> None:
    assert comparison_of() == comparison
    assert comparison_of(seed=1) != comparison


def test_a_baseline_alone() -> None:
    alone = compare([WORST], QRELS, ["RR@10"], baseline="base_line")
    assert [row.contrast for row in alone.rows] == [None]


def test_all_wrong_arguments_at_once() -> None:
    with pytest.raises(EvaluationError) as caught:
        compare(
            [WORST, WORST],
            QRELS,
            ["AP"],
            baseline="none",
            test="guess",
            correction="hope",
            level=5.0,
        )
    assert str(caught.value).splitlines() == [
        "two runs are named 'base_line'",
        "the baseline 'none' is none of the runs: base_line, base_line",
        "the test 'guess' is none of randomisation, t",
        "the correction 'hope' is none of holm, bonferroni, benjamini-hochberg, none",
        "the level 5.0 is not between 0 and 1",
    ]


def test_json_holds_everything(comparison: Comparison) -> None:
    value = json.loads(as_json(comparison))
    assert value["baseline"] == "base_line"
    assert value["rows"][1]["contrast"]["p_value"] == 2 / 2**10
    assert value["rows"][0]["contrast"] is None


def test_csv_in_full_precision(comparison: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(comparison))))
    assert [row["run"] for row in rows[:3]] == ["base_line", "best & 100%", "mixed"]
    assert float(rows[1]["mean"]) == comparison.rows[1].mean
    assert (rows[0]["p_value"], rows[1]["significant"]) == ("", "True")


def test_latex(comparison: Comparison) -> None:
    assert as_latex(comparison).splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"run & RR@10 & Hits@1 \\",
        r"\midrule",
        r"base\_line & 0.2500 & 0.0000 \\",
        r"best \& 100\% & \textbf{0.9500}$^{\dagger}$ & \textbf{0.9000}$^{\dagger}$ \\",
        r"mixed & 0.2700 & 0.0000 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_marks_equals_as_equally_best() -> None:
    text = as_latex(
        compare([WORST, run_of("twin", [4] * 10)], QRELS, ["RR@10"], baseline="base_line")
    )
    assert text.count(r"\textbf{0.2500}") == 2


def test_escape_latex() -> None:
    assert escape_latex("#1_{x}^2\n$") == r"\#1\_\{x\}\textasciicircum{}2 \$"


def test_table(comparison: Comparison) -> None:
    header, first, second, *_ = table_rows(comparison)
    assert len(header) == len(first) == len(second)
    assert first[:3] == ["base_line", "RR@10", "0.2500"]
    assert first[4:] == [""] * 5
    assert second[4] == "+0.7000" and second[6] == f"{2 / 2**10:.4f}" and second[8] == "yes"


def test_written_files(comparison: Comparison, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    write_comparison(comparison, folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "comparison.csv",
        "comparison.json",
        "comparison.tex",
    ]
    assert (folder / "comparison.tex").read_text() == as_latex(comparison)
    assert (folder / "comparison.csv").read_text() == as_csv(comparison)
    assert json.loads((folder / "comparison.json").read_text()) == json.loads(as_json(comparison))
