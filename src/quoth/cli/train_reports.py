"""Reports of learning and training, laid out for the terminal: the verdict first."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from quoth.cli.show import table
from quoth.jobs.pixar.report import MEASURE, GenerativeReport, verdict
from quoth.jobs.quoting.report import DynamicReport, how_to_use
from quoth.jobs.report.report import LearningReport
from quoth.jobs.report.words import (
    by_how_much,
    facts,
    headline,
    how_it_knows,
    plain_number,
    reasons,
    with_interval,
)
from quoth.text.display import count, duration, make_safe, one_line

_MOST_EXAMPLES = 3


def render_report(report: LearningReport) -> Group:
    """Lay out a report for the terminal: the verdict first, then what it stands on."""
    is_used = report.installed or report.reranker_fitted
    pieces: list[object] = [
        Text(make_safe(headline(report)), style="bold green" if is_used else "bold"),
        *(Text(make_safe(each)) for each in by_how_much(report)),
        *(Text(make_safe(each)) for each in reasons(report)),
        Text(make_safe(how_it_knows(report)), style="dim"),
        Text(make_safe(report.supervision)),
        Text(""),
        _quality_table(report),
        _stage_table(report),
        _values("leak check", report.leak),
        _values("identifiers", report.identifiers),
        _values("generative search", report.generative),
        *_examples(report),
        *(
            Text.assemble((f"{name}: ", "dim"), make_safe(each))
            for name, each in facts(report).items()
        ),
    ]
    return Group(*pieces)  # type: ignore[arg-type]


def _quality_table(report: LearningReport) -> Group:
    rows = [
        [
            f"{row.searcher}, {row.queries}",
            f"{row.num_queries:,}",
            with_interval(row.before) if row.before else "",
            with_interval(row.after),
            with_interval(row.difference, is_difference=True) if row.difference else "",
        ]
        for row in report.quality
    ]
    measures = ", ".join(dict.fromkeys(row.measure for row in report.quality))
    columns = ["search and queries", "queries", "before", "after", "difference"]
    return table(f"quality on held-out queries, {measures}" if rows else "quality", columns, rows)


def _stage_table(report: LearningReport) -> Group:
    rows = [
        [
            stage.name,
            duration(stage.seconds),
            f"{stage.peak_megabytes:,.0f} MB",
            f"{stage.best_step:,} of {stage.steps:,}" if stage.steps else "",
            stage.stopped_because,
        ]
        for stage in report.stages
    ]
    return table("stages", ["stage", "time", "memory", "best step", "stopped because"], rows)


def _values(title: str, values: Mapping[str, float]) -> Group:
    rows = [[name, plain_number(value)] for name, value in values.items()]
    return table(title, ["what", "value"], rows) if rows else Group()


def _examples(report: LearningReport) -> list[object]:
    shown: list[object] = []
    for passage, queries in report.examples[:_MOST_EXAMPLES]:
        shown.append(Text.assemble(("passage: ", "dim"), one_line(passage, max_chars=160)))
        for query in queries:
            line = Text.assemble(("pseudo-query: ", "dim"), one_line(query, max_chars=120))
            shown.append(Padding(line, (0, 0, 0, 4), expand=False))
    return shown


def render_generative(report: GenerativeReport) -> Group:
    """Lay out a report for the terminal: quality first, then sizes and times."""
    rows = [
        [each.queries, f"{each.num_queries:,}"]
        + [f"{value:.4f}" for value in (each.lexical, each.untrained, each.trained)]
        for each in report.judged
    ]
    title = f"{MEASURE} on held-out queries among {count(report.num_documents, 'document')}"
    columns = ["queries", "number", "BM25", "untrained", "trained"]
    return Group(
        table(title, columns, rows) if rows else Text("nothing was held out for evaluation"),
        table(
            "what was built",
            ["what", "value"],
            [[*row] for row in _generative_facts(report).items()],
        ),
        table(
            "stages",
            ["stage", "time"],
            [[name, duration(seconds)] for name, seconds in report.seconds.items()],
        ),
        Text(make_safe(verdict(report))),
    )


def _generative_facts(report: GenerativeReport) -> dict[str, str]:
    kept = f", the best after {report.best_step:,}" if report.best_step else ""
    unnamed = (
        {"documents without an identifier": f"{report.num_unnamed:,}"} if report.num_unnamed else {}
    )
    return unnamed | {
        "identifiers": f"{report.num_identifiers:,}, of {report.mean_length:.2f} phrases",
        "phrases": f"{report.num_phrases:,}, shortlist: {report.method}",
        "slots": f"{report.num_slots:,}",
        "training queries": f"{report.num_inputs:,}",
        "steps": f"{report.steps:,} of {report.batch_size:,} queries ({report.device}){kept}",
        "loss": f"{report.first_loss:.3f} → {report.last_loss:.3f}",
        "size": f"{report.megabytes:,.1f} MB",
        "seed": str(report.seed),
    }


def render_training(report: DynamicReport) -> Group:
    """Lay out a report for the terminal: quality first, then sizes and times."""
    facts = {
        "model": report.model,
        "started from": report.start,
        **{name: f"{number:,}" for name, number in report.counts.items()},
        "steps": f"{report.steps:,} ({report.device})",
        "loss": f"{report.losses[0][1]:.3f} → {report.losses[-1][1]:.3f}" if report.losses else "",
        "abstention": report.abstention,
        "memory": f"{report.peak_megabytes:,.0f} MB",
        "seed": str(report.seed),
    }
    times = [[name, duration(seconds)] for name, seconds in report.seconds.items()]
    return Group(
        table("held-out documents", ["measure", "before", "after"], _training_quality(report)),
        table("what was trained", ["what", "value"], [[*row] for row in facts.items()]),
        table("stages", ["stage", "time"], times),
        Text(make_safe(how_to_use(report))),
    )


def _training_quality(report: DynamicReport) -> list[list[str]]:
    before, after = report.before, report.after
    rows = [["perplexity without phrases", f"{before.perplexity:.2f}", f"{after.perplexity:.2f}"]]
    for kind in after.scores:
        for name, label in (
            ("mixed_loss", "mixed loss"),
            ("phrase_recall", "phrase recall"),
            ("phrase_precision", "phrase precision"),
        ):
            values = [getattr(each.scores[kind], name) for each in (before, after)]
            rows.append([f"{label}, {kind}", *(f"{value:.3f}" for value in values)])
    return rows
