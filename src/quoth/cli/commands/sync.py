"""`quoth sync` and `quoth watch`."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    NoEncode,
    open_engine,
)
from quoth.cli.options import with_settings
from quoth.cli.problems import Problems
from quoth.cli.vectors import encode_if_quick
from quoth.errors import CollectionError, QuothError
from quoth.text import display
from quoth.text.moments import write_now

if TYPE_CHECKING:
    from quoth.engine.sync.plan import SyncPlan
    from quoth.engine.sync.sync import SyncReport
    from quoth.shards.opening import OpenedEngine

_SECTIONS = ("sync", "readers", "passages", "analyser", "lexical", "dense", "generative")
_SHOWN = ("sync.ignore", "sync.hidden", "sync.gitignore", "sync.max_file_bytes")
_MOST_LISTED = 20

Folders = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FOLDER",
        help="Folders to keep in sync from now on; by default, those the collection remembers.",
        show_default=False,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Remove documents without asking, however many.", metavar="")
]


@with_settings(*_SECTIONS, "collection", shown=_SHOWN)
def sync(
    collection: Collection,
    folders: Folders = None,
    *,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what would change.", metavar="")
    ] = False,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Read every file, even if its size and time have not changed, and restore"
            " documents that were removed by hand.",
            metavar="",
        ),
    ] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            "--forget",
            help="Stop syncing this folder; its documents stay. May be repeated.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    no_encode: NoEncode = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Sync a collection with folders: add new files, update changed ones, remove deleted ones.

    The collection remembers its folders, so quoth sync COLLECTION is enough later. Documents from
    elsewhere stay. It asks before it removes many documents.
    """
    with open_engine(collection, config, settings) as engine:
        if forget:
            _forget(engine, forget, as_json=as_json)
        elif dry_run:
            _print_plan(engine.plan_sync(folders or (), thorough=thorough), as_json=as_json)
        else:
            run_sync(
                engine,
                folders or (),
                yes=yes,
                thorough=thorough,
                encode=not no_encode,
                as_json=as_json,
            )


@with_settings(*_SECTIONS, "collection", shown=("sync.settle_seconds", *_SHOWN))
def watch(
    collection: Collection,
    folders: Folders = None,
    *,
    config: ConfigFile = None,
    settings: Mapping[str, str],
) -> None:
    """Keep a collection in sync with folders until interrupted.

    It reads changes about a second after the last one. Changes that would remove many documents
    wait for quoth sync --yes; everything else proceeds.
    """
    stop = threading.Event()
    with _stopping(stop), open_engine(collection, config, settings) as engine:
        follow_folders(engine, folders or (), stop)


def run_sync(
    engine: OpenedEngine,
    folders: Sequence[str],
    *,
    yes: bool = False,
    thorough: bool = False,
    encode: bool = True,
    as_json: bool = False,
) -> None:
    """Sync once, asking first where much would be removed."""
    from quoth.engine.sync.sync import SyncOptions

    plan = engine.plan_sync(folders, thorough=thorough)
    confirmed = plan.removed if yes or (plan.warnings and _agrees(plan)) else 0
    problems = Problems(limit=None if as_json else _MOST_LISTED)
    options = SyncOptions(thorough=thorough, confirmed=confirmed)
    report = engine.sync(folders, options=options, report=problems)
    if encode and report.added:
        encode_if_quick(engine)
    if as_json:
        show.print_json({**_record(report), "problems": problems.lines})
    else:
        problems.tell_rest()
        for line in _notes(report):
            show.note(line)
        rows = [[name, f"{count:,}"] for name, count in _counts(report).items()]
        show.out().print(show.table(str(engine.folder), ["sync", "count"], rows))
    if report.skipped:
        raise typer.Exit(1)


def follow_folders(engine: OpenedEngine, folders: Sequence[str], stop: threading.Event) -> None:
    """Sync whenever something changed, until told to stop; an error is told, and tried again."""
    from quoth.collection.sources import open_sources
    from quoth.engine.sync.sync import SyncOptions
    from quoth.engine.sync.watching import Watcher

    config = engine.plan_sync(folders).config  # complains at once where nothing can be watched

    def list_folders() -> list[str]:
        return [each.path for each in open_sources(engine.folder).folders]

    watcher = Watcher(engine.folder, list_folders, stop)
    told: tuple[str, ...] = ()
    problems = Problems(limit=_MOST_LISTED, once=True)
    for _ in watcher.due(config):
        try:
            report = engine.sync(
                folders,
                options=SyncOptions(hold=True),
                report=problems,
                is_to_stop=stop.is_set,
            )
        except QuothError as error:
            show.note(f"{write_now()} out of sync: {error}; trying again")
            watcher.retry()
            continue
        problems.tell_rest()
        if report.held != told:
            told = report.held
            for line in told:
                show.note(f'waiting for "quoth sync {engine.folder} --yes": {line}')
        if report.added or report.updated or report.removed:
            show.note(f"{write_now()} {_one_line(report)}")
    show.note("stopped; everything stored so far is kept")


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block at the next good moment; a second Ctrl-C at once."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def take(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for each in before:
        signal.signal(each, take)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _agrees(plan: SyncPlan) -> bool:
    """Ask whether so much may be removed; without a terminal nobody can be asked."""
    if not sys.stdin.isatty():
        return False
    for warning in plan.warnings:
        show.note(f"this removes {warning}")
    if not typer.confirm("Go on?", err=True):
        raise CollectionError("nothing was changed")
    return True


def _forget(engine: OpenedEngine, folders: Sequence[str], *, as_json: bool) -> None:
    from quoth.engine.sync.sync import forget_folders

    stay = forget_folders(engine, folders)
    if as_json:
        show.print_json({"forgotten": list(folders), "documents": stay})
    else:
        what = display.count(stay, "document")
        show.out().print(f"{', '.join(folders)}: no longer kept in sync; {what} stay", markup=False)


def _print_plan(plan: SyncPlan, *, as_json: bool) -> None:
    """Say what a sync would do."""
    if as_json:
        show.print_json({"folders": [_plan_record(each) for each in plan.folders]})
        return
    for each in plan.folders:
        for problem in each.problems[:_MOST_LISTED]:
            show.note(f"skipped {problem}")
        listed = [f"read {each.source.shown(found.path)}" for found in (*each.new, *each.changed)]
        listed += [f"remove {each.source.shown(known.path)}" for known in each.gone]
        for line in listed[:_MOST_LISTED]:
            show.out().print(line, markup=False, soft_wrap=True)
        if len(listed) > _MOST_LISTED:
            show.out().print(f"… and {len(listed) - _MOST_LISTED:,} more", markup=False)
    rows = [
        [
            each.source.name,
            *(f"{len(some):,}" for some in (each.new, each.changed, each.gone)),
            f"{each.removed:,} of {each.documents:,}",
        ]
        for each in plan.folders
    ]
    columns = ["folder", "new files", "perhaps changed", "gone", "documents to remove"]
    show.out().print(show.table("nothing was changed", columns, rows))


def _plan_record(each: Any) -> dict[str, Any]:
    return {
        "folder": each.source.name,
        "path": each.source.path,
        "new": [found.path for found in each.new],
        "perhaps_changed": [found.path for found in each.changed],
        "gone": [known.path for known in each.gone],
        "documents": each.documents,
        "documents_to_remove": each.removed,
        "problems": [str(problem) for problem in each.problems],
    }


def _record(report: SyncReport) -> dict[str, Any]:
    return {
        **{name.replace(" ", "_"): count for name, count in _counts(report).items()},
        "failed_before": report.failed_before,
        "ignored": report.ignored,
        "formats_not_read": report.unread or {},
    }


def _counts(report: SyncReport) -> dict[str, int]:
    return {
        "added": report.added,
        "updated": report.updated,
        "removed": report.removed,
        "files read": report.files_read,
        "files unchanged": report.files_unchanged,
        "skipped": report.skipped,
    }


def _notes(report: SyncReport) -> Iterator[str]:
    """Say what was left out, and why."""
    if report.unread:
        kinds = [f"{count:,} {suffix}" for suffix, count in list(report.unread.items())[:5]]
        total = display.count(sum(report.unread.values()), "file")
        yield f"{total} in unsupported formats: {', '.join(kinds)}"
    if report.ignored:
        yield f"{display.count(report.ignored, 'file or folder', 'files or folders')} ignored"
    if report.failed_before:
        what = display.count(report.failed_before, "file")
        yield f"{what} with unreadable parts, unchanged since the last sync"


def _one_line(report: SyncReport) -> str:
    counts = {name: _counts(report)[name] for name in ("added", "updated", "removed")}
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
