"""A learning report as one HTML file that needs nothing else: no script, no request, no font.

Texts of documents stand in it, so it is written through `markup`, which escapes them, and the page
forbids itself by policy to load or run anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from quoth.artifact import write_text_atomically
from quoth.jobs.report.markup import Markup, element, join
from quoth.jobs.report.plots import plot_curve, plot_quality, plot_times
from quoth.jobs.report.report import Estimate, LearningReport, Quality, Stage
from quoth.jobs.report.words import (
    LEAK,
    MEASURE,
    by_how_much,
    facts,
    headline,
    how_it_knows,
    plain_number,
    reasons,
)
from quoth.text.display import duration, signed

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --ink: #1d2126;
  --quiet: #5c6670; --line: #e2e5e8; --before: #7d8791; --after: #1f5fbf; --gain: #15703a;
  --loss: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #15181c; --card: #1d2126; --ink: #e8eaed;
  --quiet: #a3adb7; --line: #343b43; --before: #929ca6; --after: #7fb0ff; --gain: #6fd08f;
  --loss: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.15rem; font-weight: 600; color: var(--quiet); margin: 0 0 .75rem;
  overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.75rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
.verdict { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  border-left: 5px solid var(--before); padding: 1rem 1.25rem; margin-bottom: 1rem;
  max-width: 50rem; }
.verdict.installed { border-left-color: var(--gain); }
.verdict strong { display: block; font-size: 1.4rem; line-height: 1.3; }
.quiet { color: var(--quiet); font-size: .9rem; }
.pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1.5rem 2rem;
  align-items: start; }
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 1.5rem 2rem; }
figure { margin: 0; min-width: 0; max-width: 32rem; }
svg { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; } .narrow { max-width: 46rem; }
table { border-collapse: collapse; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .4rem .5rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td { white-space: nowrap; } td:first-child { white-space: normal; }
th { font-weight: 600; color: var(--quiet); }
td small { display: block; color: var(--quiet); white-space: nowrap; font-size: .78rem; }
.gain { color: var(--gain); fill: var(--gain); font-weight: 600; }
.loss { color: var(--loss); fill: var(--loss); font-weight: 600; }
blockquote { margin: 1rem 0; padding: 0 0 0 1rem; border-left: 3px solid var(--line); }
blockquote p { white-space: pre-line; }
ul { margin: .25rem 0; padding-left: 1.25rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem 1.25rem; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
details summary { cursor: pointer; color: var(--quiet); }
text { font-size: 12px; fill: var(--ink); paint-order: stroke; stroke: var(--page);
  stroke-width: 3px; } text.tick { fill: var(--quiet); font-size: 11px; }
text.gain { fill: var(--gain); } text.loss { fill: var(--loss); } .strong { font-weight: 600; }
.grid { stroke: var(--line); } .interval { stroke-width: 2; stroke-linecap: round; }
.interval.before { stroke: var(--before); } .interval.after { stroke: var(--after); }
.dot { stroke-width: 2; } .dot.before { fill: var(--page); stroke: var(--before); }
.dot.after { fill: var(--after); stroke: var(--after); }
.curve { fill: none; stroke: var(--after); stroke-width: 2; stroke-linejoin: round; }
.point { fill: var(--after); } .best { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.bar { fill: var(--after); }
@media (max-width: 50rem) { .pair { grid-template-columns: minmax(0, 1fr); }
  main { padding-top: 1.25rem; } dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .5rem; } figure { max-width: none; } td small { white-space: normal; }
  th, td { padding: .4rem .25rem; } }
"""


def write_page(report: LearningReport, path: Path) -> None:
    """Write the report as a page; what stood there before is replaced at once or not at all."""
    write_text_atomically(path, make_page(report))


def make_page(report: LearningReport) -> str:
    """Make the whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"What Quoth learnt: {report.collection}"),
        element("style", Markup(_STYLE)),
    )
    sections = (
        _verdict(report),
        _quality(report.quality),
        _curves(report.stages),
        _times(report.stages),
        _leak(report.leak),
        _examples(report),
        _details(report),
    )
    body = element("body", element("main", *sections))
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _verdict(report: LearningReport) -> Markup:
    is_used = report.installed or report.reranker_fitted
    kind = "verdict installed" if is_used else "verdict"
    return join(
        element("h1", f"What Quoth learnt about {report.collection}"),
        element(
            "div",
            element("strong", headline(report)),
            *(element("p", each) for each in by_how_much(report)),
            element("p", how_it_knows(report)),
            *(element("p", each, class_="quiet") for each in reasons(report)),
            class_=kind,
        ),
        element("p", report.supervision),
    )


def _quality(quality: Sequence[Quality]) -> Markup:
    if not quality:
        return _section("Quality", element("p", "There were no held-out queries to judge by."))
    rows = [
        [
            join(
                element("b", row.searcher),
                f", {row.queries}",
                element("small", f"{row.num_queries:,} queries, {row.measure}"),
            ),
            _cell(row.before),
            _cell(row.after),
            _difference(row.difference),
        ]
        for row in quality
    ]
    table = _table(["search and queries", "before", "after", "difference"], rows)
    return _section(
        "Quality on held-out queries",
        element("p", f"Further right is better. {MEASURE}", class_="quiet"),
        element("div", element("figure", plot_quality(quality)), table, class_="pair"),
    )


def _curves(stages: Sequence[Stage]) -> Markup:
    drawn = [stage for stage in stages if stage.curve]
    if not drawn:
        return Markup()
    figures = [
        element(
            "figure",
            element("h3", stage.name),
            plot_curve(stage, key=f"curve-{at}"),
            element(
                "p",
                f"Best at step {stage.best_step:,} of {stage.steps:,}{_ending(stage)}.",
                class_="quiet",
            ),
            element(
                "details",
                element("summary", "as a table"),
                _table(["step", "RR@10"], [[f"{s:,}", f"{v:.3f}"] for s, v in stage.curve]),
            ),
        )
        for at, stage in enumerate(drawn)
    ]
    return _section(
        "How it learnt",
        element("p", "Held-out RR@10 after so many steps; the ring marks the step that was kept."),
        element("div", *figures, class_="curves"),
    )


def _ending(stage: Stage) -> str:
    """Say why a stage was stopped, if it was."""
    return f"; stopped because {stage.stopped_because}" if stage.stopped_because else ""


def _times(stages: Sequence[Stage]) -> Markup:
    if not stages:
        return Markup()
    rows = [
        [
            stage.name,
            duration(stage.seconds),
            f"{stage.peak_megabytes:,.0f} MB",
            f"{stage.steps:,}" if stage.steps else "",
        ]
        for stage in stages
    ]
    table = _table(["stage", "time", "most memory", "steps"], rows)
    plot = element("figure", plot_times(stages))
    return _section("Where the time went", element("div", plot, table, class_="pair"))


def _leak(leak: Mapping[str, float]) -> Markup:
    return _section("Leak check", element("p", LEAK), _values(leak))


def _examples(report: LearningReport) -> Markup:
    if not report.examples:
        return Markup()
    quotes = [
        element(
            "blockquote",
            element("p", passage, class_="quiet"),
            element("ul", *(element("li", query) for query in queries)),
        )
        for passage, queries in report.examples
    ]
    told = "Passages of the collection, and below each the queries that were written for it."
    return _section("Pseudo-queries", element("p", told), *quotes)


def _details(report: LearningReport) -> Markup:
    pairs = [
        join(element("dt", name), element("dd", value)) for name, value in facts(report).items()
    ]
    names = (element("h3", "Names given to documents"), _values(report.identifiers))
    built = (element("h3", "Generative search"), _values(report.generative))
    return _section(
        "Details",
        element("dl", *pairs),
        *(names if report.identifiers else ()),
        *(built if report.generative else ()),
    )


def _section(title: str, *content: str) -> Markup:
    return element("section", element("h2", title), *content)


def _values(values: Mapping[str, float]) -> Markup:
    if not values:
        return Markup()
    rows = [[name, plain_number(each)] for name, each in values.items()]
    return element("div", _table(["what", "value"], rows), class_="narrow")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = element("tr", *(element("th", column, scope="col") for column in columns))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", table, class_="scroll")


def _cell(estimate: Estimate | None) -> Markup:
    if estimate is None:
        return join("–")
    interval = f"{estimate.low:.3f} to {estimate.high:.3f}"
    return join(f"{estimate.mean:.3f}", element("small", interval))


def _difference(estimate: Estimate | None) -> Markup:
    if estimate is None:
        return join("–")
    tone = "gain" if estimate.low > 0 else "loss" if estimate.high < 0 else "quiet"
    interval = f"{signed(estimate.low)} to {signed(estimate.high)}"
    return join(element("span", signed(estimate.mean), class_=tone), element("small", interval))
