"""`quoth add --ray`: sources read on a cluster, each shard written by a process of its own.

A collection in one piece has one writer, one in shards as many as shards. What comes out is what
`quoth add` without a cluster gives: the same documents in the same order, the same report.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quoth.cluster.adding import AddJob, add_on_cluster
from quoth.collection.preparing import CutDocument, Prepared
from quoth.collection.shards import ShardSet, is_sharded, open_shards
from quoth.collection.store import FILE_NAME, Store, Written
from quoth.engine.adding import AddReport, add_in_batches, deduplicate, raise_problem
from quoth.engine.engine import Engine
from quoth.engine.writing import locked
from quoth.errors import ConfigError, QuothError
from quoth.records import Document, Located, Place, Problem
from quoth.search.searcher import Progress
from quoth.settings.config import Config, Values, build_config
from quoth.shards.engine import ShardedEngine
from quoth.shards.port import ShardEngine
from quoth.text.passages import cut_document
from quoth.text.readers.files import find_files, show_path
from quoth.text.readers.outcomes import PARSER_FAILURES, Outcome, describe
from quoth.text.readers.reading import (
    PYTHON_PREFIX,
    STANDARD_INPUT,
    Report,
    read_documents,
)


@dataclass(frozen=True, slots=True)
class Target:
    """A collection to write to, in one piece or in shards, as it was before."""

    folder: Path
    settings: Sequence[Values]
    shards: ShardSet | None
    changes: tuple[int, ...]
    """The last change of each shard."""

    last_row: int
    """The last row that any document had."""

    @property
    def numbers(self) -> range:
        """The shards' numbers; a collection in one piece is its own only shard."""
        return range(len(self.changes))

    def path(self, number: int) -> Path:
        """Name the folder of a shard."""
        return self.folder if self.shards is None else self.shards.shard(number)

    def shard_of(self, docid: str) -> int:
        """Say which shard a document belongs to."""
        return 0 if self.shards is None else self.shards.shard_of(docid)


@dataclass(frozen=True, slots=True)
class ShardWritten:
    """What became of the documents of one shard."""

    added: int
    updated: int
    unchanged: int
    problems: tuple[Problem, ...]


def add_with_cluster(
    folder: Path,
    sources: Sequence[str],
    *,
    settings: Sequence[Values],
    report: Report | None,
    progress: Progress,
) -> AddReport:
    """Add or update the documents of sources, on the cluster that is joined.

    What cannot be read goes to `report`; without one, the first problem stops the reading.
    """
    tell = _Telling(report)
    target, config = open_target(folder, settings), _config_of(folder, settings)
    job = AddJob(
        sources=list(_list_sources(sources, tell)),
        read=functools.partial(read_one, config=config, directory=str(Path.cwd())),
        write=functools.partial(_write_shard, target),
        shard_of=target.shard_of,
        shards=target.numbers,
    )
    with _alone(target, config):
        said = add_on_cluster(
            job, report=tell, progress=lambda done: progress("reading documents", done, 0)
        )
    if target.shards is not None:
        with ShardedEngine.open(folder, settings=settings, progress=progress):
            pass  # opening exchanges the statistics
    written: list[ShardWritten] = [said[number] for number in target.numbers]
    for problem in (each for own in written for each in own.problems):
        tell(problem)
    return AddReport(
        sum(each.added for each in written),
        sum(each.updated for each in written),
        sum(each.unchanged for each in written),
        tell.count,
    )


def open_target(folder: Path, settings: Sequence[Values]) -> Target:
    """Look at what is to be written to."""
    shards = open_shards(folder) if is_sharded(folder) else None
    paths = (folder,) if shards is None else shards.shards
    changes, last_row = [], 0
    for path in paths:
        if not (path / FILE_NAME).exists():
            changes.append(0)
            continue
        with contextlib.closing(Store.open(path)) as store:
            changes.append(store.change)
            last_row = max(last_row, store.last_row)
    return Target(folder.resolve(), settings, shards, tuple(changes), last_row)


def read_one(source: str, *, config: Config, directory: str) -> Iterator[Outcome]:
    """Read one source where the command was given; what cannot be read or cut is a problem.

    Not even a document that a parser or the cutting of passages fails on stops the others.
    """
    problems: list[Problem] = []
    with contextlib.chdir(directory):
        try:
            for located in read_documents([source], config=config.readers, report=problems.append):
                yield from _drain(problems)
                yield _tried(located, config)
        except (*PARSER_FAILURES, QuothError) as error:
            problems.append(Problem(Place(show_path(source)), f"failed: {describe(error)}"))
    yield from _drain(problems)


def _drain(problems: list[Problem]) -> Iterator[Problem]:
    while problems:
        yield problems.pop(0)


def _tried(located: Located, config: Config) -> Outcome:
    """Cut a document once where failing harms no other."""
    try:
        cut_document(located.document, config=config.passages)
    except PARSER_FAILURES as error:
        message = f"document {located.document.docid!r} cannot be cut: {describe(error)}"
        return Problem(located.place, message)
    return located


def _write_shard(
    target: Target, number: int, numbered: Iterator[tuple[int, Located]]
) -> ShardWritten:
    """Write one shard; counts are taken from its log, so that those of a lost writer count."""
    problems: list[Problem] = []
    passing = _Passing(numbered, keeps_numbers=target.shards is not None)
    documents = deduplicate(passing.located(), problems.append)
    if target.shards is None:
        with Engine.open(target.folder, settings=target.settings) as engine:
            engine.add_documents(passing.counted(documents))
    else:
        with (
            ShardEngine.open(target.path(number), settings=target.settings) as shard,
            shard.writing() as (store, config),
        ):
            sink = _RowTaker(store, passing, first=target.last_row + 1)
            alone = replace(config, collection=replace(config.collection, workers=0))
            add_in_batches(passing.counted(documents), sink, alone, progress=_tell_nobody)
    with contextlib.closing(Store.open(target.path(number))) as store:
        kinds = store.count_changes(target.changes[number])
    added, updated = kinds.get("add", 0), kinds.get("update", 0)
    return ShardWritten(added, updated, passing.count - added - updated, tuple(problems))


class _Passing:
    """Counts documents on their way, and remembers the numbers of those under way."""

    def __init__(self, numbered: Iterator[tuple[int, Located]], *, keeps_numbers: bool) -> None:
        self._numbered = numbered
        self._keeps_numbers = keeps_numbers
        self.number_by_docid: dict[str, int] = {}
        self.count = 0

    def located(self) -> Iterator[Located]:
        """Pass documents on, as they were read."""
        for number, located in self._numbered:
            if self._keeps_numbers:
                self.number_by_docid.setdefault(located.document.docid, number)
            yield located

    def counted(self, documents: Iterator[Document]) -> Iterator[Document]:
        """Pass documents on, and count them."""
        for document in documents:
            self.count += 1
            yield document


class _RowTaker:
    """Writes to a shard, with rows that go by the order of all sources."""

    def __init__(self, store: Store, passing: _Passing, *, first: int) -> None:
        self._store = store
        self._passing = passing
        self._first = first

    def digests(self, docids: Sequence[str]) -> dict[str, bytes]:
        """Map docids to the digests of what is stored of them; others are left out."""
        return self._store.digests(docids)

    def add(
        self, documents: Sequence[Document], *, cut: CutDocument, prepared: Prepared | None = None
    ) -> Written:
        """Add or update a batch."""
        numbers = self._passing.number_by_docid
        rows = [self._first + numbers.pop(document.docid) for document in documents]
        return self._store.add(documents, cut=cut, rows=rows, prepared=prepared)


class _Telling:
    """Counts problems, and tells of them or stops at the first."""

    def __init__(self, report: Report | None) -> None:
        self._report = raise_problem if report is None else report
        self.count = 0

    def __call__(self, problem: Problem) -> None:
        self.count += 1
        self._report(problem)


def _config_of(folder: Path, settings: Sequence[Values]) -> Config:
    if is_sharded(folder):
        with ShardedEngine.open(folder, settings=settings) as sharded:
            return sharded.config
    if not (folder / FILE_NAME).exists():
        return build_config(*settings)
    with Engine.open(folder, settings=settings) as engine:
        return engine.config


def _list_sources(sources: Sequence[str], report: Report) -> Iterator[str]:
    """List the files that sources mean; a cluster reads each by itself."""
    if STANDARD_INPUT in sources:
        raise ConfigError("standard input is on this machine alone; name files, or leave --ray out")
    for source in sources:
        for found in [source] if source.startswith(PYTHON_PREFIX) else find_files(source):
            if isinstance(found, Problem):
                report(found)
            else:
                yield found


def _alone(target: Target, config: Config) -> contextlib.AbstractContextManager[None]:
    """Be the one writer of a set of shards; each shard's own lock is its writer's."""
    if target.shards is None:
        return contextlib.nullcontext()
    return locked(target.folder, wait_seconds=config.collection.wait_seconds)


def _tell_nobody(_what: str, _done: int, _total: int) -> None:
    """Write without showing progress; the readers' is shown."""
