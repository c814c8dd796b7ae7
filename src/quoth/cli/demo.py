"""The main job, shown on a corpus that every machine has: Python's own docstrings."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from quoth.cli import show
from quoth.engine.engine import Engine
from quoth.errors import ConfigError, MissingExtra
from quoth.records import SearchRequest
from quoth.text import display

_QUERY = "walk a directory tree and match file names"
_PHRASE = '+priority "heap queue"'
_FILTERED = 'kind == "class"'
_QUESTION = "Which class is used to count hashable items?"


def play(folder: Path | None) -> None:
    """Index the standard library's docstrings, then search, explain, filter and ask them."""
    console = show.out()
    path = folder or default_folder()
    console.print(Rule("1. Add documents"))
    _type(console, f"quoth add {quote(str(path))} python:stdlib")
    _add(console, path)
    with Engine.open(path) as engine:
        _show_search(engine, console, path)
        _show_explanation(engine, console, path)
        _show_filter(engine, console, path)
        _show_answer(engine, console, path)
    console.print(Rule("What to try next"))
    console.print(_next_steps(path), soft_wrap=True)


def _add(console: Console, path: Path) -> None:
    problems: list[str] = []
    start = time.perf_counter()
    with show.progress_bar() as progress, Engine.open(path, progress=progress) as engine:
        report = engine.add(["python:stdlib"], report=lambda each: problems.append(str(each)))
    seconds = time.perf_counter() - start
    if report.added or report.updated:
        console.print(
            f"{report.added:,} docstrings added, {report.updated:,} updated, "
            f"{report.unchanged:,} unchanged, in {seconds:.1f} s. "
            "Run the demo again to see that unchanged documents are skipped."
        )
    else:
        console.print(f"All {report.unchanged:,} docstrings are unchanged ({seconds:.1f} s).")
    for line in problems[:3]:
        console.print(Text(display.make_safe(f"skipped {line}")))


def default_folder() -> Path:
    """Choose a folder in the user's cache, one per Python version."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    version = ".".join(platform.python_version_tuple()[:2])
    return Path(cache) / "quoth" / f"python-{version}.quoth"


def _show_search(engine: Engine, console: Console, path: Path) -> None:
    console.print(Rule("2. Search: every word that matched is marked"))
    _type(console, f'quoth search {quote(str(path))} "{_QUERY}" -k 3')
    for each in engine.find(SearchRequest(_QUERY, k=3)).hits:
        show.print_hit(each, console)


def _show_explanation(engine: Engine, console: Console, path: Path) -> None:
    console.print(Rule("3. Explain: the parts add up to the score"))
    _type(console, f"quoth search {quote(str(path))} '{_PHRASE}' -k 1 --explain")
    for each in engine.find(SearchRequest(_PHRASE, k=1, explain=True)).hits:
        show.print_hit(each, console)


def _show_filter(engine: Engine, console: Console, path: Path) -> None:
    console.print(Rule("4. Filter: conditions apply before ranking, so k hits stay k hits"))
    _type(console, f"quoth search {quote(str(path))} 'count things' -k 3 --where '{_FILTERED}'")
    for each in engine.find(SearchRequest("count things", k=3, where=_FILTERED)).hits:
        show.print_hit(each, console)


def _show_answer(engine: Engine, console: Console, path: Path) -> None:
    console.print(Rule("5. Ask: the answer quotes the documents and cites its sources"))
    _type(console, f'quoth ask {quote(str(path))} "{_QUESTION}"')
    try:
        stream = engine.ask(_QUESTION)
    except (MissingExtra, ConfigError) as error:  # without a language model the demo ends here
        console.print(Text(display.make_safe(str(error))))
        return
    from quoth.cli.answers import answer_text, follow

    if stream.notice:
        show.note(stream.notice)
    follow(stream, console)
    console.print(answer_text(stream.answer()))


def _type(console: Console, command: str) -> None:
    """Show a command as typed: in one line, so that it can be copied."""
    console.print(Text(f"$ {command}", style="bold"), soft_wrap=True)


def _next_steps(path: Path) -> Text:
    return Text(
        f'  quoth ask {quote(str(path))} "YOUR QUESTION"\n'
        f"  quoth serve {quote(str(path))}\n"
        "                                         the same as a web page, at http://127.0.0.1:8080\n"
        "  quoth add notes.quoth ~/notes          your own txt, md, html, pdf, docx, csv, jsonl\n"
        '  quoth search notes.quoth "YOUR QUESTION" --json\n'
        "  quoth status notes.quoth               sizes, fields, settings\n"
        "  quoth --help                           everything else"
    )
