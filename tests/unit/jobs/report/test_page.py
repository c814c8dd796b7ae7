"""The page of a learning report: one file, nothing obeyed that a document says, plots in place."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from learning_reports import make_report

from quoth.jobs.report.page import make_page, write_page
from quoth.jobs.report.plots import make_axis, plot_curve, plot_quality, plot_times
from quoth.jobs.report.report import Estimate, LearningReport, Quality, Stage

HOSTILE = '"><script>alert(1)</script><img src=x onerror="y">&amp;\x00'
VOID = {"meta", "br", "hr"}
KNOWN = """html head meta title style body main h1 h2 h3 p b strong small span div section figure
table thead tbody tr th td blockquote ul li dl dt dd details summary svg desc text tspan line circle
polyline rect"""


class Reader(HTMLParser):
    """Collects elements, attributes and text, and checks that all is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attributes}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str, kind: str = "") -> list[dict[str, str]]:
        return [
            each for name, each in self.elements if name == tag and kind in each.get("class", "")
        ]


def _hostile() -> LearningReport:
    report = make_report(title=HOSTILE)
    row = replace(report.quality[1], searcher=HOSTILE, queries=HOSTILE, measure=HOSTILE)
    stage = replace(report.stages[2], name=HOSTILE, stopped_because=HOSTILE)
    return replace(
        report,
        quality=(row, *report.quality),
        stages=(stage,),
        reason=HOSTILE,
        supervision=HOSTILE,
        device=HOSTILE,
        quoth=HOSTILE,
        encoder_before=HOSTILE,
        encoder_after=HOSTILE,
        leak={HOSTILE: 0.5},
        identifiers={HOSTILE: 2.0},
        num_queries_by_kind={HOSTILE: 3},
        examples=((HOSTILE, (HOSTILE,)),),
    )


def test_no_text_becomes_markup() -> None:
    page = make_page(_hostile())
    read = Reader(page)
    assert {name for name, _attributes in read.elements} <= set(KNOWN.split())
    assert all(not key.startswith("on") for _n, each in read.elements for key in each)
    assert "<script" not in page and "<img" not in page and "\x00" not in page
    assert read.text.count("<script>alert(1)</script>") >= 15


def test_the_page_loads_nothing_and_forbids_it() -> None:
    page = make_page(make_report())
    read = Reader(page)
    assert not {"src", "href", "xlink:href"} & {key for _n, each in read.elements for key in each}
    assert not re.search(r"url\(|@import|https?:", page)
    (policy,) = [
        each["content"]
        for each in read.all("meta")
        if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_page_says_what_matters_first() -> None:
    text = Reader(make_page(make_report())).text
    order = [
        "Installed:",
        "went from RR@10 0.561 to 0.579",
        "held-out queries (300",
        "No one labelled",
    ]
    assert sorted(order, key=text.index) == order
    for expected in ("Leak check", "do ravens remember people", "0.788", "models/learned-1"):
        assert expected in text
    assert "Kept aside:" in Reader(make_page(make_report(installed=False))).text


def test_every_plot_has_words_for_those_who_do_not_see_it() -> None:
    read = Reader(make_page(make_report()))
    plots = read.all("svg")
    assert len(plots) == 1 + 2 + 1 and len(read.all("table")) == 1 + 2 + 1 + 2
    named = {
        each["id"] for name, each in read.elements if name in ("title", "desc") and "id" in each
    }
    for plot in plots:
        assert plot["role"] == "img" and set(plot["aria-labelledby"].split()) <= named
    assert len(named) == 2 * len(plots)
    assert "dense, known items, low overlap: RR@10 0.331 before, 0.402 after" in read.text


def test_an_empty_report_makes_a_page() -> None:
    empty = replace(make_report(), quality=(), stages=(), leak={}, identifiers={}, examples=())
    read = Reader(make_page(empty))
    assert read.all("svg") == [] and "no held-out queries" in read.text


def test_writing_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(make_report(), path)
    assert path.read_text(encoding="utf-8") == make_page(make_report())
    assert list(tmp_path.iterdir()) == [path]


# --- Plots ----------------------------------------------------------------------------------------


def _row(before: Estimate | None, after: Estimate) -> Quality:
    return Quality("dense", "known items", 9, "RR@10", before, after, None)


def test_dots_and_intervals_stand_where_their_values_are() -> None:
    rows = [_row(Estimate(0.4, 0.2, 0.5), Estimate(0.6, 0.5, 0.8)), _row(None, Estimate(1, 1, 1))]
    read = Reader(plot_quality(rows))

    def place(value: float) -> float:
        return 6 + (value - 0.2) / (1.0 - 0.2) * (394 - 6)  # ticks 0.2, 0.4, … 1

    dots = read.all("circle", "dot")[2:]  # the first two are the legend's
    assert [float(each["cx"]) for each in dots] == pytest.approx(
        [place(0.4), place(0.6), place(1.0)], abs=0.01
    )
    assert ["before" in each["class"] for each in dots] == [True, False, False]
    ends = [(float(each["x1"]), float(each["x2"])) for each in read.all("line", "interval")[1:]]
    expected = [(0.2, 0.5), (0.5, 0.8), (1.0, 1.0)]
    assert ends == [pytest.approx((place(a), place(b)), abs=0.01) for a, b in expected]
    heights = [float(each["cy"]) for each in dots]
    assert heights == sorted(heights) and heights[2] - heights[1] == 50


def test_a_curve_goes_through_its_points_and_marks_the_best() -> None:
    curve = ((0, 0.0), (50, 1.0), (100, 0.5))
    stage = Stage("warm-up", 9.0, 1.0, 100, 50, curve, "all steps are done")
    read = Reader(plot_curve(stage, key="c"))
    (line,) = read.all("polyline")
    points = [tuple(map(float, each.split(","))) for each in line["points"].split()]
    assert points == [
        pytest.approx((46 + share * (386 - 46), y))
        for share, y in ((0.0, 170.0), (0.5, 16.0), (1.0, (170 + 16) / 2))
    ]
    (best,) = read.all("circle", "best")
    assert (float(best["cx"]), float(best["cy"])) == points[1]


def test_bars_are_as_long_as_their_times() -> None:
    stages = [Stage(name, each, 1.0, 0, 0, (), "") for name, each in (("a", 40.0), ("b", 10.0))]
    read = Reader(plot_times([*stages, Stage("c", 0.0, 1.0, 0, 0, (), "")]))
    widths = [float(each["width"]) for each in read.all("rect")]
    assert widths == pytest.approx([388.0, 97.0, 1.0])
    assert "40 s" in read.text and "0.0 s" in read.text


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.0], [1.0], [0.999, 1.0], [-0.03, 0.7], [0, 3e4]])
def test_axes_hold_all_values_on_few_ticks(values: list[float]) -> None:
    axis = make_axis(values, start=0.0, end=100.0)
    assert 2 <= len(axis.ticks) <= 6
    assert all(-1e-6 <= axis.at(value) <= 100 + 1e-6 for value in values)


def test_a_curve_of_one_point_can_be_drawn() -> None:
    stage = Stage("warm-up", 9.0, 1.0, 10, 10, ((10, 0.5),), "nothing got better")
    read = Reader(plot_curve(stage, key="c"))
    assert len(read.all("circle", "point")) == len(read.all("circle", "best")) == 1


def test_a_stage_that_was_not_stopped_gives_no_reason() -> None:
    report = make_report()
    stages = tuple(replace(stage, stopped_because="") for stage in report.stages)
    assert "stopped because" not in make_page(replace(report, stages=stages))
    stopped = replace(stages[2], stopped_because="it collapsed")
    page = make_page(replace(report, stages=(*stages[:2], stopped, *stages[3:])))
    assert "stopped because it collapsed." in page
