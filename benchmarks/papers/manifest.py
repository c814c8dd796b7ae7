"""Read papers.toml: every table and figure of the four papers, and our figures beside theirs.

Ours are never written there: a *reference* says which result file holds a figure, and where:

    learn/learn:rows[set=scifact;start=pretrained]/results[run_name=bm25;measure=RR@10]

is in benchmarks/learn/results/learn.json. Brackets choose from a list: the one item with these
values (`!=` for other ones), or the item at a place; with a star before, all that fit, whose mean
is taken. What is found is a number, or a mean or difference with the ends of its interval.

A column's reference may leave {names} open, which each row fills in; a row that fills in none was
not run. A sentence takes its figures from references, too: <reference|scale|digits>.
"""

from __future__ import annotations

import functools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

MANIFEST = Path(__file__).with_name("papers.toml")
MISSING = "–"
_ROOT = Path(__file__).resolve().parents[1]
_PARTS = re.compile(r"([^/\[]+)((?:\[[^\]]*\])*)(?:/|$)")
_CHOICES = re.compile(r"\[([^\]]*)\]")
_OPEN = re.compile(r"\{(\w+)\}")
_TOLD = re.compile(r"<([^<>|]+)\|([\d.]+)\|(\d)>")
_MEANS = ("mean", "difference", "auroc")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of ours, with the ends of its interval where the file has them."""

    value: float
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    """Over seeds."""

    text: str = ""
    """What is shown in its place, where a table has words instead of figures."""

    def show(self, *, scale: float, digits: int, signed: bool = False) -> str:
        """Write the figure.

        >>> Figure(0.1234, 0.1, 0.15).show(scale=100, digits=1)
        '12.3 [10.0, 15.0]'
        """
        if self.text:
            return self.text.replace("|", "\\|")
        form = f"{'+' if signed else ''}.{digits}f"
        told = format(scale * self.value, form)
        if self.deviation is not None:
            return f"{told} ± {format(scale * self.deviation, form)}"
        if self.low is None or self.high is None:
            return told
        return f"{told} [{format(scale * self.low, form)}, {format(scale * self.high, form)}]"


@dataclass(frozen=True, slots=True)
class Column:
    """A measure, and where ours are."""

    name: str
    ref: str = ""
    """Where our figures are; empty where we do not measure this."""

    scale: float = 1.0
    digits: int = 1
    signed: bool = False
    is_text: bool = False
    """Has words instead of figures."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: the paper's figures, and what stands for it here."""

    name: str
    paper: tuple[str, ...] = ()
    """As printed, in the order of the columns; empty where the row is ours alone."""

    here: str = ""
    """What was run here; empty where nothing was."""

    fills: Mapping[str, str] = field(default_factory=dict)
    """What the columns leave open; a dash where a column makes no sense."""

    def ours(self, column: Column) -> Figure | None:
        """Read our figure; None where there is none."""
        found = self.reference(column)
        if found and column.is_text:
            return Figure(math.nan, text=str(look_up(found)[0]))
        return read_figure(found) if found else None

    def reference(self, column: Column) -> str:
        """Say where our figure is; empty where there is none."""
        filled = {self.fills.get(name, MISSING) for name in _OPEN.findall(column.ref)}
        if not column.ref or not self.here or MISSING in filled:
            return ""
        return column.ref.format(**self.fills)

    def told(self, place: int) -> str:
        """Write the paper's figure of a column."""
        return self.paper[place] if place < len(self.paper) else MISSING

    def shown(self, column: Column) -> str:
        """Write our figure of a column, or why there is none."""
        found = self.ours(column)
        if found is not None:
            return found.show(scale=column.scale, digits=column.digits, signed=column.signed)
        open_names = _OPEN.findall(column.ref)
        is_meant = column.ref and all(self.fills.get(name) != MISSING for name in open_names)
        return "not run" if is_meant or not self.here else MISSING


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A table, a figure, or figures of the text."""

    name: str
    about: str
    difference: str
    """How ours differ from the paper's, in a sentence or two, or why nothing was run.

    Figures of ours stand in it as <reference|scale|digits>; see `told`.
    """

    command: tuple[str, ...] = ()
    like: str = ""
    """Whose commands repeat this one, too."""

    hardware: str = ""
    time: str = ""
    """What `seconds` are of."""

    seconds: str = ""
    """Where the time is noted."""

    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def num_run(self) -> int:
        """Rows of the paper that were run here."""
        return sum(bool(row.paper and row.here) for row in self.rows)

    @property
    def num_rows(self) -> int:
        """Rows of the paper."""
        return sum(bool(row.paper) for row in self.rows)

    @property
    def num_shown(self) -> int:
        """Rows that were run here, ours alone among them."""
        return sum(bool(row.here) for row in self.rows)

    @property
    def status(self) -> str:
        """Say how much of it was run."""
        if not self.num_run:
            return (
                "rows of our own"
                if self.num_shown
                else "in part"
                if self.command or self.like
                else "not run"
            )
        return f"{self.num_run} of {self.num_rows} rows"

    @property
    def duration(self) -> str:
        """Say how long it takes, as far as that was noted."""
        if not self.seconds:
            return "time not noted" if self.command else ""
        seconds = read_figure(self.seconds).value
        if seconds > 120:
            return f"{seconds / 60:,.0f} minutes {self.time}"
        told = f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"
        return f"{told} seconds {self.time}"

    @property
    def told(self) -> str:
        """Write how ours differ, with the figures that the sentences refer to."""
        return _TOLD.sub(_fill, self.difference)

    def sides(self, place: int) -> tuple[bool, bool]:
        """Say of a column whether the paper, and whether we, have any figure of it."""
        by_paper = any(row.told(place) != MISSING for row in self.rows)
        by_us = any(row.reference(self.columns[place]) for row in self.rows)
        return by_paper, by_us


@dataclass(frozen=True, slots=True)
class Paper:
    """One of the four."""

    name: str
    title: str
    page: str
    """Our page about the system."""

    note: str
    exhibits: tuple[Exhibit, ...]
    drawings: str
    """Figures that show no measurement."""


def read_papers() -> tuple[Paper, ...]:
    """Read the manifest."""
    text = MANIFEST.read_text(encoding="utf-8")
    found = tomllib.loads(text, parse_float=str)["papers"]  # type: ignore[arg-type]  # as printed
    return tuple(_paper(each) for each in found)


def references(papers: Sequence[Paper]) -> Iterator[str]:
    """Yield every reference of the manifest, filled in."""
    for exhibit in (each for paper in papers for each in paper.exhibits):
        if exhibit.seconds:
            yield exhibit.seconds
        yield from (found[1] for found in _TOLD.finditer(exhibit.difference))
        for row in exhibit.rows:
            for column in exhibit.columns:
                if found := row.reference(column):
                    yield found


def read_figure(reference: str) -> Figure:
    """Read a figure from its result file, the mean where several fit."""
    found = [_as_figure(each, reference) for each in look_up(reference)]
    if len(found) == 1:
        return found[0]
    return Figure(fmean(each.value for each in found))


def look_up(reference: str) -> list[Any]:
    """Return what a reference stands for: one thing, or all that a star fits."""
    file, _, path = reference.partition(":")
    found = [_read(file)]
    for name, choices in _PARTS.findall(path):
        found = [_value(each, name, reference) for each in found]
        for choice in _CHOICES.findall(choices):
            found = [each for own in found for each in _choose(own, choice, reference)]
    return found


@functools.cache
def _read(file: str) -> Any:
    folder, _, name = file.partition("/")
    path = _ROOT / folder / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def _value(holder: Any, name: str, reference: str) -> Any:
    if not isinstance(holder, Mapping) or name not in holder:
        raise LookupError(f"{reference}: there is no {name!r}")
    return holder[name]


def _choose(items: Any, choice: str, reference: str) -> list[Any]:
    if not isinstance(items, list):
        raise LookupError(f"{reference}: [{choice}] chooses from something that is no list")
    if choice.isdigit():
        return [items[int(choice)]]
    fitting = [each for each in items if _fits(each, choice.removeprefix("*"))]
    if not fitting or (len(fitting) > 1 and not choice.startswith("*")):
        raise LookupError(f"{reference}: [{choice}] fits {len(fitting)} items")
    return fitting


def _fits(item: Mapping[str, Any], choice: str) -> bool:
    """Say whether an item has the values that are asked for.

    >>> _fits({"set": "squad", "step": 2}, "set=squad;step!=1")
    True
    """
    for part in filter(None, choice.split(";")):
        name, other, wanted = re.split(r"(!?=)", part, maxsplit=1)
        if (str(item.get(name)) == wanted) != (other == "="):
            return False
    return True


def _as_figure(found: Any, reference: str) -> Figure:
    if isinstance(found, Mapping):
        mean = next((found[name] for name in _MEANS if name in found), None)
        ends = found.get("interval", found)
        if isinstance(mean, int | float):
            return Figure(mean, ends.get("low"), ends.get("high"), found.get("deviation"))
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise LookupError(f"{reference} is no figure: {str(found)[:60]}")
    return Figure(found)


def _fill(found: re.Match[str]) -> str:
    """Write the figure that a sentence refers to, without the ends of its interval."""
    reference, scale, digits = found.groups()
    return f"{float(scale) * read_figure(reference).value:,.{digits}f}"


def _paper(record: Mapping[str, Any]) -> Paper:
    exhibits = tuple(_exhibit(each) for each in record["exhibits"])
    rest = {key: value for key, value in record.items() if key != "exhibits"}
    return Paper(**{"note": "", "drawings": "", **rest}, exhibits=exhibits)


def _exhibit(record: Mapping[str, Any]) -> Exhibit:
    plain = {key: value for key, value in record.items() if isinstance(value, str)}
    return Exhibit(
        **{**plain, "command": tuple(filter(None, record.get("command", "").splitlines()))},
        columns=tuple(Column(**each) for each in record.get("columns", ())),
        rows=tuple(_row(each) for each in record.get("rows", ())),
    )


def _row(record: Mapping[str, Any]) -> Row:
    known = {"name", "paper", "here"}
    return Row(
        record["name"],
        tuple(map(str, record.get("paper", ()))),
        record.get("here", ""),
        {key: str(value) for key, value in record.items() if key not in known},
    )
