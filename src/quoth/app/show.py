"""What commands print: results on standard output, everything else on standard error.

Text from documents is never trusted: control and direction-changing characters are shown as �, and
nothing in it is read as markup.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from quoth.records import Document, Hit, Part, Snippet

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def out() -> Console:
    """Standard output."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 100)


def err() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def print_json(value: object) -> None:
    """Print one JSON value, and nothing else, on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def make_safe(text: str) -> str:
    r"""Replace characters that could command a terminal or reorder the line.

    >>> make_safe("red\x1b[31m")
    'red�[31m'
    """
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def error(message: str) -> None:
    """Say what went wrong."""
    err().print(Text.assemble(("error: ", "bold red"), make_safe(message)), soft_wrap=True)


def note(message: str) -> None:
    """Say something worth knowing."""
    err().print(Text(make_safe(message)), soft_wrap=True)


def hit_text(rank: int, hit: Hit, document: Document, snippet: Snippet | None) -> Group:
    """Lay out one hit: rank, title, score, docid, and the snippet with its highlights."""
    title = next(
        (document.fields[name][0] for name in ("title", "name") if document.fields.get(name)), ""
    )
    head = Text.assemble(
        (f"{rank:>2}. ", "bold"),
        (make_safe(title or hit.docid), "bold cyan"),
        (f"  {hit.score:.3f}", "green"),
        (f"  {make_safe(hit.docid)}" if title and title != hit.docid else "", "dim"),
    )
    if snippet is None:
        return Group(head)
    body = Text(" ".join(re.split(r"[\r\n\t]", make_safe(snippet.text))))
    for span in snippet.highlights:
        body.stylize("bold yellow", span.start, span.end)
    return Group(head, Padding(body, (0, 0, 0, 4)))


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


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Lay out a table; columns after the first are numbers."""
    built = Table(title=title, title_justify="left")
    for at, column in enumerate(columns):
        built.add_column(column, justify="left" if at == 0 else "right")
    for row in rows:
        built.add_row(*(Text(make_safe(cell)) for cell in row))
    return built


def key_values(values: Mapping[str, Any], *, depth: int = 0) -> Iterator[str]:
    """Write nested values as indented lines."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{'  ' * depth}{key}:"
            yield from key_values(value, depth=depth + 1)
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else f"{value}"
            yield f"{'  ' * depth}{key}: {shown}"


class Bar:
    """A progress bar on standard error that follows an engine's reports."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._tasks: dict[str, Any] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how far something has come."""
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total or None)
        self._progress.update(self._tasks[what], completed=done, total=total or None)


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """Show progress while the block runs; nothing where standard error is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    console = err()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield Bar(progress)
