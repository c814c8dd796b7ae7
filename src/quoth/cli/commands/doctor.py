"""`quoth doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from quoth import __version__
from quoth.cli import show
from quoth.cli.commands.arguments import AsJson
from quoth.cli.doctor import MISSING, OK, PROBLEM, Finding, examine
from quoth.text import display

_SIGNS = {OK: ("✓", "green"), MISSING: ("–", "yellow"), PROBLEM: ("✗", "bold red")}

Examined = Annotated[
    Path | None,
    typer.Argument(
        metavar="COLLECTION", help="A collection to open and check as well.", show_default=False
    ),
]
Load = Annotated[
    bool,
    typer.Option(
        "--load", help="Import every library to find broken ones; takes a few seconds.", metavar=""
    ),
]


def doctor(collection: Examined = None, *, load: Load = False, as_json: AsJson = False) -> None:
    """Show what is installed, what is missing, and which command installs it.

    It checks packages, models, free disk space and, if you name one, a collection. The exit code is
    1 if something keeps Quoth or the collection from working.
    """
    with show.progress_bar() as progress:
        progress("looking", 0, 0)
        found = examine(collection, load=load)
    problems = sum(each.state == PROBLEM for each in found)
    if as_json:
        findings = [asdict(each) for each in found]
        show.print_json({"version": __version__, "problems": problems, "findings": findings})
    else:
        _print(found)
    if problems:
        raise typer.Exit(1)


def _print(found: Sequence[Finding]) -> None:
    console = show.out()
    width = max(len(each.name) for each in found if len(each.name) <= 24)
    for group, own in groupby(found, key=lambda each: each.group):
        console.print(Text(group, style="bold"))
        for each in own:
            sign, style = _SIGNS[each.state]
            name = display.make_safe(each.name).ljust(width)
            line = Text.assemble("  ", (sign, style), f" {name}  ", display.make_safe(each.detail))
            console.print(line, soft_wrap=True)
            if each.command:
                command = Text(f"      {display.make_safe(each.command)}", style="cyan")
                console.print(command, soft_wrap=True)
    console.print(Text(f"\n{_verdict(found)}"), soft_wrap=True)


def _verdict(found: Sequence[Finding]) -> str:
    problems = sum(each.state == PROBLEM for each in found)
    missing = sum(each.state == MISSING for each in found)
    if problems:
        return f"{display.count(problems, 'problem')}; the lines marked ✗ say what to do"
    if missing:
        return (
            f"Quoth works; {display.count(missing, 'optional part')} marked – can be added by the"
            " command below each"
        )
    return "everything is installed"
