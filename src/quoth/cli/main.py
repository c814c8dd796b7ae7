"""The command line: what `quoth` is, and what becomes of its errors.

Exit codes: 0 done; 1 done, but some input was skipped or damage was found; 2 wrong usage or
settings; 3 the collection or the output cannot be used; 4 an input stopped the command (--strict);
5 queries, judgements or measures are unusable; 6 a Ray cluster cannot be joined, or work on it
failed; 130 interrupted.
"""

from __future__ import annotations

import functools
import importlib
import io
import keyword
import os
import sys
from typing import Annotated

import typer

from quoth import __version__
from quoth.cli import show
from quoth.cli.plain_group import PlainGroup, with_hyphens
from quoth.errors import (
    ClusterError,
    CollectionError,
    ConfigError,
    CorpusError,
    Damaged,
    EvaluationError,
    FilterError,
    Interrupted,
    MissingExtra,
    QuothError,
)

_EPILOG = (
    "Exit codes: 0 success · 1 success, but some input was skipped or damage was found · 2 wrong"
    " usage or settings · 3 collection or output unusable · 4 stopped by --strict · 5 unusable"
    " queries, judgements or measures · 6 cluster unreachable, or work on it failed · 130"
    " interrupted."
)
_MODULES = {
    "add": "add",
    "remove": "add",
    "sync": "sync",
    "watch": "sync",
    "encode": "learn",
    "learn": "learn",
    "search": "search",
    "ask": "ask",
    "generate": "ask",
    "run": "evaluate",
    "evaluate": "evaluate",
    "compare": "evaluate",
    "status": "status",
    "verify": "status",
    "export": "interchange",
    "import": "interchange",
    "serve": "serve",
    "shard": "shards",
    "merge": "shards",
    "settings": "settings",
    "demo": "search",
    "train": "train",
    "phrases": "phrases",
    "keys": "keys",
    "doctor": "doctor",
    "completion": "shell",
    "man": "shell",
}
"""Where each command is, in the order of --help."""

_COMPLETION = "_QUOTH_COMPLETE"  # set by a shell that wants to know how a line goes on
_TYPED = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")  # where it says what was typed so far
_INTERRUPTED = 130
_RESUMES = "interrupted; everything stored so far is kept, and the same command resumes"
_EXIT_CODES: tuple[tuple[type[QuothError], int], ...] = (
    (ConfigError, 2),
    (FilterError, 2),
    (MissingExtra, 2),
    (CollectionError, 3),
    (CorpusError, 4),
    (EvaluationError, 5),
    (ClusterError, 6),
    (Interrupted, _INTERRUPTED),
)


def main() -> None:
    """Run the command line; every error of ours becomes a message and an exit code."""
    _replace_what_cannot_be_written()
    words = sys.argv
    if _COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
        words = next((os.environ[name] for name in _TYPED if name in os.environ), "").split()
    try:
        named = next((word for word in words[1:3] if word != "--"), "")
        app = make_app(named) if named in _MODULES else make_outline()
        app(prog_name="quoth")
    except QuothError as error:
        show.error(_advise(error))
        sys.exit(next(code for kind, code in _EXIT_CODES if isinstance(error, kind)))
    except OSError as error:  # a full disk, or no permission, where a file is written
        show.error(f"{error.filename or 'output'}: {error.strerror}")
        sys.exit(3)
    except SystemExit as end:
        if end.code == _INTERRUPTED:  # typer has made it of a KeyboardInterrupt
            show.error(_RESUMES)
        raise


def _replace_what_cannot_be_written() -> None:
    """Write ? for what the output's encoding lacks, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quoth {__version__}")
        raise typer.Exit


def common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
            metavar="",
        ),
    ] = False,
) -> None:
    """Search your own documents without a single label."""


@functools.cache
def make_app(name: str = "") -> typer.Typer:
    """Return the command line, with one command alone where one is named.

    Importing all of them takes longer than most of them work.
    """
    from quoth.cli.options import add_help_all

    app = _make_bare()
    for each in (name,) if name in _MODULES else _MODULES:
        module = importlib.import_module(f"quoth.cli.commands.{_MODULES[each]}")
        command = getattr(module, f"{each}_" if keyword.iskeyword(each) else each)
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        else:
            app.command(each)(command)
    add_help_all(app)
    return app


def make_outline() -> typer.Typer:
    """Return the command line as its --help shows it, with commands that do nothing."""
    from quoth.cli.outline import SUMMARIES

    app = _make_bare()
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(_do_nothing)
    return app


def _do_nothing() -> None:
    pass


def _make_bare() -> typer.Typer:
    app = typer.Typer(
        name="quoth",
        cls=PlainGroup,
        help="Search your own documents without a single label.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"token_normalize_func": with_hyphens},
        epilog=_EPILOG,
    )
    app.callback()(common)
    return app


def _advise(error: QuothError) -> str:
    text = _RESUMES if isinstance(error, Interrupted) else str(error)
    if isinstance(error, Damaged) and "quoth verify" not in text and "restore" not in text:
        text += '; "quoth verify COLLECTION --repair" rebuilds indexes from the documents'
    return text
