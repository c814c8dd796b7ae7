"""Plots of a learning report as inline SVG: pure functions from values to markup.

A plot is 400 units wide, so that its letters can be read on a phone and need not be scaled up much
on a desk. Colours come from the page's style, by class. Each plot has a title and a description for
those who do not see it; the page puts a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quoth.jobs.report.markup import Markup, element, join
from quoth.jobs.report.report import Estimate, Quality, Stage
from quoth.text.display import duration, signed

WIDTH = 400.0
_LEFT, _RIGHT = 6.0, 394.0
_ROW = 50.0
_LEGEND = 34.0
_CURVE_TOP, _CURVE_BOTTOM, _CURVE_LEFT = 16.0, 170.0, 46.0
_BAR_ROW = 38.0
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """Values along a line, `low` at its start and `high` at its end."""

    low: float
    high: float
    ticks: tuple[float, ...]
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place of a value.

        >>> Axis(0.0, 1.0, ticks=(0.0, 0.5, 1.0), start=10.0, end=110.0).at(0.25)
        35.0
        """
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def make_axis(
    values: Iterable[float], *, start: float, end: float, most: int = 6, tight: bool = False
) -> Axis:
    """Choose at most so many round ticks that hold all values; `tight` ends where these end.

    >>> make_axis([0.42, 0.61], start=0.0, end=1.0).ticks
    (0.4, 0.45, 0.5, 0.55, 0.6, 0.65)
    >>> make_axis([0.0, 85.0], start=0.0, end=1.0).ticks
    (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
    >>> make_axis([0.5], start=0.0, end=1.0).ticks
    (0.45, 0.5, 0.55)
    >>> make_axis([0, 110], start=0.0, end=1.0, tight=True).ticks
    (0.0, 50.0, 100.0)
    """
    known = list(values) or [0.0, 1.0]
    low, high = min(known), max(known)
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    power = math.floor(math.log10(high - low)) - 1
    for step in (base * 10.0**exponent for exponent in range(power, power + 4) for base in _STEPS):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            break
    ticks = tuple(round(step * at, 10) for at in range(first, last + 1))
    if tight:
        return Axis(low, high, tuple(each for each in ticks if low <= each <= high), start, end)
    return Axis(ticks[0], ticks[-1], ticks, start, end)


def plot_quality(quality: Sequence[Quality]) -> Markup:
    """Draw before and after as dots with their intervals, one row per searcher and queries."""
    known = [each for row in quality for each in (row.before, row.after) if each is not None]
    reach = [end for each in known for end in (each.low, each.high)]
    axis = make_axis(reach, start=_LEFT, end=_RIGHT)
    bottom = _LEGEND + _ROW * len(quality)
    grid = [
        join(
            _line(axis.at(tick), _LEGEND - 6, axis.at(tick), bottom, "grid"),
            _text(_number(tick), axis.at(tick), bottom + 14, "tick", anchor=_anchor(tick, axis)),
        )
        for tick in axis.ticks
    ]
    rows = [_quality_row(each, _LEGEND + _ROW * at, axis) for at, each in enumerate(quality)]
    return _svg(
        "quality",
        "Quality before and after learning",
        "; ".join(map(describe_quality, quality)),
        bottom + 20,
        _legend(),
        *grid,
        *rows,
    )


def describe_quality(row: Quality) -> str:
    """Say one row in words.

    >>> describe_quality(Quality("dense", "known items", 9, "RR@10", None,
    ...                          Estimate(0.5, 0.4, 0.6), None))
    'dense, known items: RR@10 0.500 after, none before'
    """
    if row.before is None:
        return (
            f"{row.searcher}, {row.queries}: {row.measure} {row.after.mean:.3f} after, none before"
        )
    return (
        f"{row.searcher}, {row.queries}: {row.measure} {row.before.mean:.3f} before,"
        f" {row.after.mean:.3f} after"
    )


def _quality_row(row: Quality, top: float, axis: Axis) -> Markup:
    label = join(element("tspan", row.searcher, class_="strong"), f", {row.queries}")
    pieces = [_text(label, _LEFT, top + 11, "label")]
    if row.difference is not None:
        tone = "gain" if row.difference.low > 0 else "loss" if row.difference.high < 0 else "tick"
        shown = signed(row.difference.mean)
        pieces.append(_text(shown, _RIGHT, top + 11, f"label {tone}", anchor="end"))
    if row.before is not None:
        pieces.append(_dot(row.before, top + 22, axis, "before"))
    pieces.append(_dot(row.after, top + 32, axis, "after"))
    return join(*pieces)


def _dot(estimate: Estimate, y: float, axis: Axis, kind: str) -> Markup:
    return join(
        _line(axis.at(estimate.low), y, axis.at(estimate.high), y, f"interval {kind}"),
        element("circle", cx=axis.at(estimate.mean), cy=y, r=4.5, class_=f"dot {kind}"),
    )


def _legend() -> Markup:
    return join(
        element("circle", cx=_LEFT + 5, cy=10.0, r=4.5, class_="dot before"),
        _text("before", _LEFT + 15, 14, "tick"),
        element("circle", cx=_LEFT + 71, cy=10.0, r=4.5, class_="dot after"),
        _text("after", _LEFT + 81, 14, "tick"),
        _line(_LEFT + 122, 10, _LEFT + 144, 10, "interval after"),
        _text("95\u00a0% interval", _LEFT + 150, 14, "tick"),
        _text("difference", _RIGHT, 14, "tick", anchor="end"),
    )


def plot_curve(stage: Stage, *, key: str) -> Markup:
    """Draw the held-out quality of a stage over its steps, its best step marked."""
    steps, scores = zip(*stage.curve, strict=True)
    across = make_axis(steps, start=_CURVE_LEFT, end=_RIGHT - 8, tight=True)
    up = make_axis(scores, start=_CURVE_BOTTOM, end=_CURVE_TOP, most=5)
    points = [(across.at(step), up.at(score)) for step, score in stage.curve]
    grid = [
        join(
            _line(_CURVE_LEFT, up.at(tick), _RIGHT, up.at(tick), "grid"),
            _text(_number(tick), _CURVE_LEFT - 6, up.at(tick) + 4, "tick", anchor="end"),
        )
        for tick in up.ticks
    ]
    below = [
        _text(f"{tick:,.0f}", across.at(tick), _CURVE_BOTTOM + 18, "tick", anchor="middle")
        for tick in across.ticks
        if tick.is_integer()
    ]
    line = element(
        "polyline", points=" ".join(f"{x:.2f},{y:.2f}" for x, y in points), class_="curve"
    )
    dots = [element("circle", cx=x, cy=y, r=2.5, class_="point") for x, y in points]
    best = [
        element("circle", cx=x, cy=y, r=6.0, class_="best")
        for (x, y), step in zip(points, steps, strict=True)
        if step == stage.best_step
    ]
    return _svg(
        key,
        f"Learning curve: {stage.name}",
        ", ".join(f"step {step}: {score:.3f}" for step, score in stage.curve),
        _CURVE_BOTTOM + 40,
        *grid,
        *below,
        _text("steps", _RIGHT - 6, _CURVE_BOTTOM + 34, "tick", anchor="end"),
        line,
        *dots,
        *best,
    )


def plot_times(stages: Sequence[Stage]) -> Markup:
    """Draw how long each stage took, as bars from zero."""
    longest = max((stage.seconds for stage in stages), default=0.0) or 1.0
    axis = Axis(0.0, longest, (), _LEFT, _RIGHT)
    rows = [
        join(
            _text(stage.name, _LEFT, _BAR_ROW * at + 14, "label"),
            _text(duration(stage.seconds), _RIGHT, _BAR_ROW * at + 14, "label", anchor="end"),
            element(
                "rect",
                x=_LEFT,
                y=_BAR_ROW * at + 20,
                width=max(1.0, axis.at(stage.seconds) - _LEFT),
                height=9.0,
                rx=2.0,
                class_="bar",
            ),
        )
        for at, stage in enumerate(stages)
    ]
    described = "; ".join(f"{stage.name}: {duration(stage.seconds)}" for stage in stages)
    return _svg("times", "Time per stage", described, _BAR_ROW * len(stages), *rows)


def _svg(key: str, title: str, description: str, height: float, *content: str) -> Markup:
    return element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", description, id=f"{key}-desc"),
        *content,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _text(text: str, x: float, y: float, kind: str, *, anchor: str = "start") -> Markup:
    return element("text", text, x=x, y=y, class_=kind, text_anchor=anchor)


def _anchor(tick: float, axis: Axis) -> str:
    """Keep the outermost labels inside the plot."""
    return {axis.ticks[0]: "start", axis.ticks[-1]: "end"}.get(tick, "middle")


def _number(tick: float) -> str:
    """Write a tick of a scale from 0 to 1.

    >>> _number(0.4), _number(0.425), _number(1.0)
    ('0.4', '0.425', '1')
    """
    return f"{tick:.3f}".rstrip("0").rstrip(".")
