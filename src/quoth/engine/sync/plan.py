"""What a collection and its folders differ in, told by names, sizes and times alone.

Nothing is read and nothing written here, so a plan is quick, and can be shown before anything
happens. A folder that is missing or cannot be looked into loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from quoth.collection.source_files import KnownFile, SourceFiles
from quoth.collection.sources import Source
from quoth.records import Place, Problem
from quoth.settings.config import Config
from quoth.text.display import count
from quoth.text.folders.config import FolderConfig
from quoth.text.folders.walking import FoundFile, list_folder
from quoth.text.readers.files import find_format

_READERS_VERSION = 1
"""Raise it when readers make other documents of the same files, which are then read again."""


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """What one folder and the collection differ in."""

    source: Source
    new: tuple[FoundFile, ...] = ()
    changed: tuple[FoundFile, ...] = ()
    """Files that may have changed: their content decides."""

    gone: tuple[KnownFile, ...] = ()
    documents: int = 0
    """How many documents the folder has in the collection."""

    removed: int = 0
    """How many of them are of files that are gone."""

    renamed: int = 0
    """How many of the removed come back under a new name, as far as sizes tell."""

    unchanged: int = 0
    failed_before: int = 0
    """Unchanged files of which something could not be read."""

    unread: Mapping[str, int] = field(default_factory=dict)
    ignored: int = 0
    is_empty: bool = False
    problems: tuple[Problem, ...] = ()

    def asks(self, config: FolderConfig) -> bool:
        """Whether so much would be removed that somebody should be asked first."""
        lost = self.removed - self.renamed
        if self.is_empty:
            return self.removed > 0
        return lost > config.ask_documents and lost > config.ask_share * self.documents

    def warning(self) -> str:
        """Say what would be removed."""
        share = self.removed / self.documents if self.documents else 0.0
        what = f"{self.removed:,} of {count(self.documents, 'document')} ({share:.0%})"
        empty = ", in which there is nothing to read now (is it mounted?)" if self.is_empty else ""
        return f"{what} from {self.source.name}{empty}"


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What a collection and all its folders differ in."""

    folders: tuple[FolderPlan, ...]
    config: FolderConfig
    live: Collection[str] | None = None
    """The docids of the collection, where files whose documents are missing are read again."""

    @property
    def removed(self) -> int:
        """How many documents are of files that are gone."""
        return sum(each.removed for each in self.folders)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Say of each folder that would lose much how much that is."""
        return tuple(each.warning() for each in self.folders if each.asks(self.config))

    @property
    def unread(self) -> dict[str, int]:
        """How many files of formats that are not read, by the end of their names."""
        total: Counter[str] = Counter()
        for each in self.folders:
            total.update(each.unread)
        return dict(total.most_common())


def make_plan(
    sources: Sequence[Source],
    files: SourceFiles,
    config: Config,
    *,
    thorough: bool = False,
    live: Collection[str] | None = None,
) -> SyncPlan:
    """Compare folders with what is known of their files; `thorough` looks into every file.

    With `live`, the docids of the collection, files whose documents are missing there count as
    changed.
    """
    how = fingerprint(config)
    plans = [
        _plan_folder(source, files, config.sync, how=how, thorough=thorough, live=live)
        for source in sources
    ]
    return SyncPlan(tuple(plans), config.sync, live)


def fingerprint(config: Config) -> str:
    """Name the settings that files are read with."""
    told = json.dumps([_READERS_VERSION, asdict(config.readers)], sort_keys=True)
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def _plan_folder(
    source: Source,
    files: SourceFiles,
    config: FolderConfig,
    *,
    how: str,
    thorough: bool,
    live: Collection[str] | None,
) -> FolderPlan:
    known = files.known(source.name)
    documents = files.count_documents(each.number for each in known.values())
    if not os.path.isdir(source.path):
        why = f"the folder {source.path} is not there; nothing of it is removed"
        problem = Problem(Place(source.name), why)
        return FolderPlan(source, documents=documents, problems=(problem,))
    listing = list_folder(source.path, config, shown=source.name)
    if listing.is_lost:
        return FolderPlan(source, documents=documents, problems=tuple(listing.problems))
    void = set() if live is None else {n for d, n in files.owned_by(source.name) if d not in live}
    new = [each for path, each in listing.files.items() if path not in known]
    changed = [
        each
        for path, each in listing.files.items()
        if path in known
        and (thorough or known[path].number in void or _may_differ(known[path], each, how))
    ]
    gone = [
        each
        for path, each in sorted(known.items())
        if path not in listing.files and not listing.is_out_of_sight(path)
    ]
    looked_at = {each.path for each in changed}
    rest = [known[path] for path in listing.files if path in known and path not in looked_at]
    return FolderPlan(
        source,
        tuple(new),
        tuple(changed),
        tuple(gone),
        documents=documents,
        removed=files.count_documents(each.number for each in gone),
        renamed=files.count_documents(each.number for each in _renamed(gone, new)),
        unchanged=len(rest),
        failed_before=sum(each.skipped > 0 for each in rest),
        unread=listing.unread,
        ignored=listing.ignored,
        is_empty=not listing.files,
        problems=tuple(listing.problems),
    )


def _may_differ(known: KnownFile, found: FoundFile, how: str) -> bool:
    signature = (known.size, known.written_ns, known.how)
    return signature != (found.size, found.written_ns, how)


def _renamed(gone: Sequence[KnownFile], new: Sequence[FoundFile]) -> list[KnownFile]:
    """Find files that are gone here and there elsewhere, by size and format, each taken once."""
    free = Counter((each.size, find_format(each.path)) for each in new)
    found = []
    for each in gone:
        key = each.size, find_format(each.path)
        if free[key] > 0:
            free[key] -= 1
            found.append(each)
    return found
