"""What commands print: results on standard output, everything else on standard error.

Text from documents is never trusted: control and direction-changing characters are shown as �, and
nothing in it is read as markup.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, NoReturn

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from quoth.records import Attention, Part, ShownHit, WordShare
from quoth.text.display import UNSAFE, make_safe, one_line

_MAX_TITLE = 120
_MAX_DOCID = 80
_MOST_ALSO = 3


class _Output(Console):
    """Standard output; where its reader goes away, as in `quoth search … | head`, that is all."""

    def on_broken_pipe(self) -> None:
        """End quietly."""
        _leave_quietly()


def out() -> Console:
    """Standard output."""
    return _Output(highlight=False, width=None if sys.stdout.isatty() else 100)


@functools.cache
def err() -> Console:
    """Standard error: one console, so that messages and the progress bar know of each other."""
    return Console(stderr=True, highlight=False)


def print_json(value: object) -> None:
    """Print one JSON value, and nothing else, on standard output.

    What a terminal might obey is escaped, as JSON allows for any character.
    """
    is_utf8 = sys.stdout.encoding.lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not is_utf8, indent=2)
    lines = text.split("\n")  # json.dumps escapes line ends, so these are its own
    try:
        for line in lines:
            sys.stdout.write(UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_quietly()


def _leave_quietly() -> NoReturn:
    """End as if all had been read; nothing is left to be flushed into the broken pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)


def error(message: str) -> None:
    """Say what went wrong."""
    err().print(Text.assemble(("error: ", "bold red"), make_safe(message)), soft_wrap=True)


def note(message: str) -> None:
    """Say something worth knowing."""
    err().print(Text(make_safe(message)), soft_wrap=True)


def print_hit(shown: ShownHit, console: Console) -> None:
    """Print a hit with its snippet, and what was asked for besides."""
    console.print(hit_text(shown))
    if shown.explanation is not None:
        console.print(part_tree(shown.explanation))
    if shown.attention is not None:
        console.print(attention_text(shown.attention))


def hit_text(shown: ShownHit) -> Group:
    """Lay out one hit: rank, title, score, docid, and the snippet with its highlights."""
    docid = one_line(shown.hit.docid, max_chars=_MAX_DOCID)
    heading = one_line(shown.title, max_chars=_MAX_TITLE) or docid
    place = shown.hit.passage.place if shown.hit.passage else ""
    head = Text.assemble(
        (f"{shown.rank:>2}. ", "bold"),
        (heading, "bold cyan"),
        (f"  {shown.hit.score:.3f}", "green"),
        (f"  {docid}" if heading != docid else "", "dim"),
        (_place_text(place, "  " if heading == docid else ", "), "dim"),
    )
    also = _also_text(shown.also)
    if shown.snippet is None:
        return Group(head, *also)
    body = Text(re.sub(r"[\n\t]", " ", make_safe(shown.snippet.text)))
    for span in shown.snippet.highlights:
        body.stylize("bold yellow", span.start, span.end)
    return Group(head, Padding(body, (0, 0, 0, 4), expand=False), *also)


def _place_text(place: str, before: str) -> str:
    return f"{before}{one_line(place, max_chars=_MAX_DOCID)}" if place else ""


def _also_text(also: Sequence[str]) -> list[Padding]:
    """Say where else near-identical documents are, the first few by name."""
    if not also:
        return []
    named = ", ".join(one_line(docid, max_chars=_MAX_DOCID) for docid in also[:_MOST_ALSO])
    more = f" and {len(also) - _MOST_ALSO:,} more" if len(also) > _MOST_ALSO else ""
    return [Padding(Text(f"the same in {named}{more}", style="dim"), (0, 0, 0, 4), expand=False)]


def part_tree(part: Part) -> Tree:
    """Lay out an explanation as a tree of summands."""

    def label(each: Part) -> Text:
        return Text.assemble((f"{each.value:8.4f}  ", "green"), make_safe(each.label))

    def grow(tree: Tree, each: Part) -> None:
        for child in each.parts:
            grow(tree.add(label(child)), child)

    tree = Tree(label(part))
    grow(tree, part)
    return tree


def attention_text(attention: Attention) -> Group:
    """Lay out the words with the most attention, of the query and of the document."""

    def line(side: str, words: Sequence[WordShare]) -> Text:
        listed = ", ".join(f"{make_safe(each.word)} {each.share:.2f}" for each in words)
        return Text.assemble((f"attention in the {side}: ", "dim"), listed or "no words")

    lines = (line("query", attention.query), line("document", attention.document))
    return Group(*(Padding(each, (0, 0, 0, 4), expand=False) for each in lines))


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    justify: Literal["left", "right"] = "right",
) -> Group:
    """Lay out a table below its title; columns after the first are numbers, unless said."""
    built = Table()
    for at, column in enumerate(columns):
        built.add_column(Text(make_safe(column)), justify="left" if at == 0 else justify)
    for row in rows:
        built.add_row(*(Text(make_safe(cell)) for cell in row))
    return Group(Text(make_safe(title), style="italic"), built)


def key_values(values: Mapping[str, Any], *, depth: int = 0) -> Iterator[str]:
    """Write nested values as indented lines."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{'  ' * depth}{make_safe(key)}:"
            yield from key_values(value, depth=depth + 1)
        else:
            yield f"{'  ' * depth}{make_safe(key)}: {_plain(value)}"


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(make_safe(str(each)) for each in value) or "(empty)"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else make_safe(str(value))


class Bar:
    """A progress bar on standard error that follows an engine's reports."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._what = ""
        self._task: Any = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how far something has come; what went on before is over."""
        if what != self._what:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._what, self._task = what, self._progress.add_task(what, total=total or None)
        self._progress.update(self._task, completed=done, total=total or None)

    @contextmanager
    def put_away(self) -> Iterator[None]:
        """Show no bar while the block runs, so that it may print and ask."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


@contextmanager
def without_bar(progress: Callable[[str, int, int], None]) -> Iterator[None]:
    """Put the progress bar of an engine away while the block runs, if that is what it has."""
    with progress.put_away() if isinstance(progress, Bar) else nullcontext():
        yield


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """Show progress while the block runs; nothing where standard error is no terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = err()
    text = TextColumn("{task.description}")
    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), left)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield Bar(progress)
