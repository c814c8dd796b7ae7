"""Bring a collection in step with its folders: read what is new or changed, remove what is gone.

Files are read first and removals come last, so a file that was renamed is never missing. Each batch
of documents is durable before the next is read; interrupted, the next sync goes on from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from quoth.collection.source_files import SourceFiles, open_files
from quoth.collection.sources import (
    Sources,
    join_sources,
    open_sources,
    read_sources,
    write_sources,
)
from quoth.engine.sync.plan import SyncPlan, make_plan
from quoth.engine.sync.reading import FileReader, SyncSink
from quoth.errors import CollectionError, ConfigError, NoCollection, NotFound
from quoth.search.searcher import Progress, ignore_progress
from quoth.settings.config import Config, Values, build_config, chosen_values
from quoth.settings.stored import known_reading
from quoth.text.readers.files import show_path
from quoth.text.readers.reading import Report

_SECTIONS = ("readers", "sync")
"""Settings that are kept with the folders, as they decide what is read from them."""

_REMOVED_AT_ONCE = 1_000


class Synced(Protocol):
    """An opened collection that can be brought in step."""

    folder: Path

    @property
    def given_settings(self) -> Sequence[Values]:
        """The settings it was opened with."""
        ...

    def docids(self) -> tuple[str, ...]:
        """List all documents."""
        ...

    def writing(self) -> AbstractContextManager[tuple[SyncSink, Config]]:
        """Be the one writer while the block lasts."""
        ...


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    files_read: int = 0
    files_unchanged: int = 0
    skipped: int = 0
    """Pieces of input that could not be read, each reported."""

    failed_before: int = 0
    """Files that could not be read before and have not changed since."""

    ignored: int = 0
    unread: dict[str, int] | None = None
    """Files of formats that are not read, by the end of their names."""

    held: tuple[str, ...] = ()
    """Removals that wait for somebody to confirm them."""

    is_complete: bool = True
    """Whether all files were looked at; otherwise the next sync goes on."""


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How careful a sync is.

    Where much would be removed, it refuses, unless that is at most `confirmed` documents; with
    `hold`, it does all the rest and tells what it left.
    """

    thorough: bool = False
    confirmed: int = 0
    hold: bool = False


def plan_sync(engine: Synced, folders: Sequence[str], *, thorough: bool = False) -> SyncPlan:
    """Say what a sync would do, by names, sizes and times."""
    kept = open_sources(engine.folder)
    config = build_config(known_reading(kept.settings), *engine.given_settings)
    sources = join_sources(kept.folders, folders)
    _require_some(sources, engine.folder)
    live = _live(engine) if thorough else None
    with open_files(engine.folder) as files:
        return make_plan(sources, files, config, thorough=thorough, live=live)


def sync_folders(
    engine: Synced,
    folders: Sequence[str] = (),
    *,
    options: SyncOptions | None = None,
    report: Report | None = None,
    progress: Progress = ignore_progress,
    is_to_stop: Callable[[], bool] = lambda: False,
) -> SyncReport:
    """Bring a collection in step with the folders it remembers, and with further ones.

    What cannot be read goes to `report`. With `is_to_stop`, it stops between two files.
    """
    options = options or SyncOptions()
    kept = open_sources(engine.folder)
    _require_some(join_sources(kept.folders, folders), engine.folder)  # before anything is made
    live = _live(engine) if options.thorough else None
    with (
        engine.writing() as (sink, config),
        contextlib.closing(SourceFiles.open(engine.folder)) as files,
    ):
        sources = join_sources(read_sources(sink).folders, folders)
        plan = make_plan(sources, files, config, thorough=options.thorough, live=live)
        held = _held(plan, options, engine.folder)
        write_sources(sink, Sources(sources, chosen_values(config, _SECTIONS)))
        files.begin_run()
        reader = FileReader(files, sink, config, plan, report=report, progress=progress)
        done = reader.read(is_to_stop)
        removed = 0
        if done.is_complete:
            removed = _remove_gone(plan, files, sink, held=held)
        told = tuple(each.warning() for each in plan.folders if each.source.name in held)
        return SyncReport(
            added=done.added,
            updated=done.updated,
            removed=done.removed + removed,
            files_read=done.files_read,
            skipped=done.skipped,
            files_unchanged=done.files_unchanged + sum(each.unchanged for each in plan.folders),
            failed_before=sum(each.failed_before for each in plan.folders),
            ignored=sum(each.ignored for each in plan.folders),
            unread=plan.unread,
            held=told,
            is_complete=done.is_complete,
        )


def forget_folders(engine: Synced, folders: Sequence[str]) -> int:
    """Stop keeping folders in step; their documents stay. Returns how many these are."""
    names = [show_path(each) for each in folders]
    known = {each.name: each for each in open_sources(engine.folder).folders}
    by_path = {each.path: each.name for each in known.values()}
    named = [each if each in known else by_path.get(str(Path(each).resolve())) for each in names]
    for given, name in zip(folders, named, strict=True):
        if name is None:
            there = ", ".join(known) or "none"
            raise NotFound(f"{given} is not synced; synced folders: {there}")
    with (
        engine.writing() as (sink, _config),
        contextlib.closing(SourceFiles.open(engine.folder)) as files,
    ):
        kept = read_sources(sink)
        rest = tuple(each for each in kept.folders if each.name not in named)
        write_sources(sink, replace(kept, folders=rest))
        return sum(files.forget_source(name) for name in named if name is not None)


def _require_some(sources: Sequence[object], folder: Path) -> None:
    if not sources:
        raise ConfigError(
            f'{folder} has no folders to sync yet; give one: "quoth sync {folder} FOLDER"'
        )


def _live(engine: Synced) -> set[str]:
    try:
        return set(engine.docids())
    except NoCollection:
        return set()


def _held(plan: SyncPlan, options: SyncOptions, folder: Path) -> set[str]:
    """Name the folders whose removals have to wait; refuse where they must not."""
    if plan.removed <= options.confirmed:
        return set()
    held = {each.source.name for each in plan.folders if each.asks(plan.config)}
    if held and not options.hold:
        raise CollectionError(
            f"this would remove {'; '.join(plan.warnings)}. Nothing was changed. Look with"
            f' "quoth sync {folder} --dry-run", and proceed with --yes'
        )
    return held


def _remove_gone(plan: SyncPlan, files: SourceFiles, sink: SyncSink, *, held: set[str]) -> int:
    """Remove the documents of files that are gone; returns how many there were."""
    removed = 0
    for folder in plan.folders:
        if folder.source.name in held:
            continue
        for at in range(0, len(folder.gone), _REMOVED_AT_ONCE):
            numbers = [each.number for each in folder.gone[at : at + _REMOVED_AT_ONCE]]
            docids = files.docids(numbers)
            if docids:
                removed += len(docids) - len(sink.remove(docids))
            files.forget_files(numbers)
    return removed
