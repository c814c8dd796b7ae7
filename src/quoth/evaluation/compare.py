"""Compare runs with a baseline: means, intervals, tests, and tables of them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from quoth.errors import EvaluationError
from quoth.evaluation.lines import write_lines
from quoth.evaluation.measures import Evaluation, evaluate_run
from quoth.evaluation.significance import (
    CORRECTIONS,
    Interval,
    bootstrap_intervals,
    paired_differences,
    paired_t_test,
    randomisation_test,
)
from quoth.records import Qrels, Run

_Scores = Sequence[float]

_TESTS: Mapping[str, Callable[[_Scores, _Scores, int], float]] = {
    "randomisation": lambda first, second, seed: randomisation_test(first, second, seed=seed),
    "t": lambda first, second, _seed: paired_t_test(first, second),
}

_CSV_HEADER = (
    "run",
    "measure",
    "mean",
    "low",
    "high",
    "difference",
    "difference_low",
    "difference_high",
    "p_value",
    "corrected_p_value",
    "significant",
)

_HEADER = (
    "run",
    "measure",
    "mean",
    "interval",
    "difference",
    "its interval",
    "p",
    "corrected p",
    "significant",
)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A run's mean difference to the baseline, positive where the run is better, and its test."""

    difference: float
    interval: Interval
    p_value: float
    corrected_p_value: float
    significant: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One run in one measure; the baseline has no contrast."""

    run_name: str
    measure: str
    mean: float
    interval: Interval
    contrast: Contrast | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs in all measures, sorted by measure, then as given; and how they were compared."""

    baseline: str
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    num_queries: int
    test: str
    correction: str
    level: float
    seed: int
    drop_same_id: bool


def compare(
    runs: Sequence[Run],
    qrels: Qrels,
    measures: Sequence[str],
    *,
    baseline: str,
    test: str = "randomisation",
    correction: str = "holm",
    level: float = 0.05,
    seed: int = 0,
    drop_same_id: bool = False,
) -> Comparison:
    """Evaluate runs and test each against the baseline, named as one of them, in each measure.

    `test` is "randomisation" or "t"; `correction` is "holm", "bonferroni", "benjamini-hochberg" or
    "none". The family that is corrected for is every test made here: all runs but the baseline
    times all measures. A difference is significant if its corrected p-value is below `level`;
    intervals are bootstrapped at confidence 1 - level, and are not corrected.
    """
    _check_arguments(runs, baseline=baseline, test=test, correction=correction, level=level)
    evaluations = [evaluate_run(run, qrels, measures, drop_same_id=drop_same_id) for run in runs]
    names = tuple(evaluations[0].scores)
    cells = _cells(evaluations, names, baseline=baseline)
    contrasts = _contrasts(
        [cell for cell in cells if cell.run_name != baseline],
        test=test,
        correction=correction,
        level=level,
        seed=seed,
    )
    return Comparison(
        baseline=baseline,
        measures=names,
        rows=_rows(cells, contrasts, level=level, seed=seed),
        num_queries=evaluations[0].num_queries,
        test=test,
        correction=correction,
        level=level,
        seed=seed,
        drop_same_id=drop_same_id,
    )


def as_json(comparison: Comparison) -> str:
    """Write out everything, as nested objects named like the fields."""
    return json.dumps(asdict(comparison), indent=2, ensure_ascii=False, allow_nan=False)


def as_csv(comparison: Comparison) -> str:
    """Write one line per row in full precision; the baseline's contrast is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEADER)
    for row in comparison.rows:
        interval = row.interval
        start = [row.run_name, row.measure, row.mean, interval.low, interval.high]
        writer.writerow([*start, *_contrast_values(row.contrast)])
    return text.getvalue()


def as_latex(comparison: Comparison) -> str:
    """Draw a booktabs table: a line per run, a column per measure, the best in bold.

    What prints the same is equally best. A dagger marks a significant difference to the baseline,
    either way.
    """
    columns = [_latex_column(comparison, measure) for measure in comparison.measures]
    names = dict.fromkeys(row.run_name for row in comparison.rows)
    body = [[escape_latex(name), *(column[name] for column in columns)] for name in names]
    header = ["run", *map(escape_latex, comparison.measures)]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
        r"\toprule",
        _latex_line(header),
        r"\midrule",
        *map(_latex_line, body),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def table_rows(comparison: Comparison) -> list[list[str]]:
    """Write each row as short texts, under a row of headings, for a table on the terminal."""
    return [list(_HEADER), *(_table_row(row) for row in comparison.rows)]


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write comparison.json, .csv and .tex, each under a temporary name first."""
    for ending, render in (("json", as_json), ("csv", as_csv), ("tex", as_latex)):
        write_lines(folder / f"comparison.{ending}", [render(comparison).removesuffix("\n")])


def escape_latex(text: str) -> str:
    r"""Make a text print as it is.

    >>> print(escape_latex(r"bm25_k1 & 50%"), escape_latex("a\\b~c"))
    bm25\_k1 \& 50\% a\textbackslash{}b\textasciitilde{}c
    """
    return re.sub(r"[\\&%$#_{}~^]", lambda match: _LATEX[match[0]], " ".join(text.split()))


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


@dataclass(frozen=True, slots=True)
class _Cell:
    """The scores of one run and of the baseline in one measure, query by query."""

    run_name: str
    measure: str
    mean: float
    scores: _Scores
    baseline_scores: _Scores


def _cells(
    evaluations: Sequence[Evaluation], measures: Sequence[str], *, baseline: str
) -> list[_Cell]:
    reference = next(e for e in evaluations if e.run_name == baseline)
    qids = list(reference.scores[measures[0]])
    return [
        _Cell(
            run_name=evaluation.run_name,
            measure=measure,
            mean=evaluation.means[measure],
            scores=[evaluation.scores[measure][qid] for qid in qids],
            baseline_scores=[reference.scores[measure][qid] for qid in qids],
        )
        for measure in measures
        for evaluation in evaluations
    ]


def _rows(
    cells: Sequence[_Cell],
    contrasts: Mapping[tuple[str, str], Contrast],
    *,
    level: float,
    seed: int,
) -> tuple[Row, ...]:
    intervals = bootstrap_intervals([c.scores for c in cells], confidence=1.0 - level, seed=seed)
    return tuple(
        Row(
            run_name=cell.run_name,
            measure=cell.measure,
            mean=cell.mean,
            interval=interval,
            contrast=contrasts.get((cell.run_name, cell.measure)),
        )
        for cell, interval in zip(cells, intervals, strict=True)
    )


def _contrasts(
    cells: Sequence[_Cell], *, test: str, correction: str, level: float, seed: int
) -> dict[tuple[str, str], Contrast]:
    """Test each cell, none of them the baseline's, and correct over all of them."""
    if not cells:
        return {}
    differences = [paired_differences(c.scores, c.baseline_scores) for c in cells]
    intervals = bootstrap_intervals(differences, confidence=1.0 - level, seed=seed)
    p_values = [_TESTS[test](c.scores, c.baseline_scores, seed) for c in cells]
    corrected = CORRECTIONS[correction](p_values)
    return {
        (cell.run_name, cell.measure): Contrast(
            difference=fmean(differences[i]),
            interval=intervals[i],
            p_value=p_values[i],
            corrected_p_value=corrected[i],
            significant=corrected[i] < level,
        )
        for i, cell in enumerate(cells)
    }


def _check_arguments(
    runs: Sequence[Run], *, baseline: str, test: str, correction: str, level: float
) -> None:
    """Raise for all that is wrong at once."""
    names = [run.name for run in runs]
    problems = [f"two runs are named {name!r}" for name in set(names) if names.count(name) > 1]
    if baseline not in names:
        problems.append(f"the baseline {baseline!r} is none of the runs: {', '.join(names)}")
    if test not in _TESTS:
        problems.append(f"the test {test!r} is none of {', '.join(_TESTS)}")
    if correction not in CORRECTIONS:
        problems.append(f"the correction {correction!r} is none of {', '.join(CORRECTIONS)}")
    if not 0.0 < level < 1.0:
        problems.append(f"the level {level} is not between 0 and 1")
    if problems:
        raise EvaluationError("\n".join(problems))


def _contrast_values(contrast: Contrast | None) -> list[float | bool | str]:
    if contrast is None:
        return [""] * 6
    return [
        contrast.difference,
        contrast.interval.low,
        contrast.interval.high,
        contrast.p_value,
        contrast.corrected_p_value,
        contrast.significant,
    ]


def _latex_column(comparison: Comparison, measure: str) -> dict[str, str]:
    rows = [row for row in comparison.rows if row.measure == measure]
    best = f"{max(row.mean for row in rows):.4f}"
    return {row.run_name: _latex_cell(row, best=best) for row in rows}


def _latex_cell(row: Row, *, best: str) -> str:
    text = f"{row.mean:.4f}"
    bold = rf"\textbf{{{text}}}" if text == best else text
    return bold + (r"$^{\dagger}$" if row.contrast and row.contrast.significant else "")


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _table_row(row: Row) -> list[str]:
    start = [row.run_name, row.measure, f"{row.mean:.4f}", _format_interval(row.interval)]
    if row.contrast is None:
        return start + [""] * (len(_HEADER) - len(start))
    return [
        *start,
        f"{row.contrast.difference:+.4f}",
        _format_interval(row.contrast.interval),
        _format_p(row.contrast.p_value),
        _format_p(row.contrast.corrected_p_value),
        "yes" if row.contrast.significant else "no",
    ]


def _format_interval(interval: Interval) -> str:
    """Write both ends to four places.

    >>> _format_interval(Interval(0.5, 0.75))
    '[0.5000, 0.7500]'
    """
    return f"[{interval.low:.4f}, {interval.high:.4f}]"


def _format_p(p_value: float) -> str:
    """Write a p-value to four places, and never as zero.

    >>> _format_p(0.03125), _format_p(0.00001)
    ('0.0312', '<0.0001')
    """
    return f"{p_value:.4f}" if p_value >= 0.0001 else "<0.0001"
