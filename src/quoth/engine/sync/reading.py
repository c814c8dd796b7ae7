"""Read the files of a sync, and bring their documents into the collection batch by batch."""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quoth.collection.content import find_problem
from quoth.collection.preparing import CutDocument
from quoth.collection.source_files import KnownFile, SourceFiles
from quoth.collection.sources import Source
from quoth.collection.store import Written
from quoth.engine.adding import MAX_BATCH_CHARACTERS, raise_problem
from quoth.engine.sync.plan import SyncPlan, fingerprint
from quoth.interruption import check_interruption
from quoth.records import Document, Place, Problem
from quoth.search.searcher import Progress
from quoth.settings.config import Config
from quoth.text.folders.walking import FoundFile
from quoth.text.passages import cut_document
from quoth.text.readers.outcomes import describe
from quoth.text.readers.reading import Report, read_file

_BLOCK = 1 << 20
_BLANK_BYTES = 4_096
_FRESH_NS = 2_000_000_000
"""A file this young may be written again without its time of writing telling."""


class SyncSink(Protocol):
    """What documents are written to and removed from: a store, or all shards."""

    def add(self, documents: Sequence[Document], *, cut: CutDocument) -> Written:
        """Add or update a batch."""
        ...

    def remove(self, docids: Sequence[str]) -> tuple[str, ...]:
        """Remove documents; returns the docids that were not there."""
        ...

    def setting(self, name: str) -> Any:
        """Read a value that is kept with the collection."""
        ...

    def set_setting(self, name: str, value: object) -> None:
        """Keep a value with the collection."""
        ...


@dataclass(slots=True)
class ReadingDone:
    """What reading files came to."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    files_read: int = 0
    files_unchanged: int = 0
    skipped: int = 0
    is_complete: bool = True


@dataclass(slots=True)
class _Reading:
    """A file that is being read."""

    source: Source
    number: int
    skipped: int = 0
    documents: int = 0
    has_duplicates: bool = False


@dataclass(slots=True)
class _Batch:
    """Documents that wait to be stored, and the files that end with them."""

    documents: list[Document] = field(default_factory=list)
    owners: dict[str, int] = field(default_factory=dict)
    characters: int = 0
    ended: list[KnownFile] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)
    """Files whose documents that were not seen again are to go."""


class FileReader:
    """Reads the files of a plan and stores their documents."""

    def __init__(
        self,
        files: SourceFiles,
        sink: SyncSink,
        config: Config,
        plan: SyncPlan,
        *,
        report: Report | None,
        progress: Progress,
    ) -> None:
        self._files, self._sink, self._config, self._plan = files, sink, config, plan
        self._report = raise_problem if report is None else report
        self._progress = progress
        self._how = fingerprint(config)
        self._cut = functools.partial(cut_document, config=config.passages)
        self._done = ReadingDone()
        self._batch = _Batch()
        self._gone = {
            (folder.source.name, each.path) for folder in plan.folders for each in folder.gone
        }
        self._ahead = {(source.name, found.path) for source, found in self._to_read()}

    def read(self, is_to_stop: Callable[[], bool]) -> ReadingDone:
        """Read what is new or may have changed; all of it is stored when this returns."""
        for folder in self._plan.folders:
            for problem in folder.problems:
                self._tell(problem)
        total = len(self._ahead)
        try:
            for number, (source, found) in enumerate(self._to_read()):
                check_interruption()
                if is_to_stop():
                    self._done.is_complete = False
                    break
                self._progress("reading files", number, total)
                self._read_one(source, found)
        finally:
            self._flush()
        return self._done

    def _to_read(self) -> Iterator[tuple[Source, FoundFile]]:
        for folder in self._plan.folders:
            together = sorted((*folder.new, *folder.changed), key=lambda each: each.path)
            yield from ((folder.source, found) for found in together)

    def _tell(self, problem: Problem) -> None:
        self._done.skipped += 1
        self._report(problem)

    def _read_one(self, source: Source, found: FoundFile) -> None:
        """Read one file, unless its content is what it was."""
        path, shown = os.path.join(source.path, found.path), source.shown(found.path)
        known = self._files.known_file(source.name, found.path)
        try:
            before, digest = _signature(path), _hash_file(path)
        except OSError as error:
            self._tell(Problem(Place(shown), f"cannot be read: {describe(error)}"))
            return
        same = known is not None and (known.digest, known.how) == (digest, self._how)
        if known is not None and same and not self._is_void(known.number):
            self._done.files_unchanged += 1
            self._end(known.number, before, digest, skipped=known.skipped)
        else:
            reading = _Reading(source, self._files.begin_file(source.name, found.path))
            self._take_documents(reading, path, shown)
            self._settle(reading, path, shown, before=before, digest=digest)
        self._ahead.discard((source.name, found.path))

    def _is_void(self, number: int) -> bool:
        """Whether documents of a file were removed by hand, which a thorough sync brings back."""
        live = self._plan.live
        return live is not None and any(each not in live for each in self._files.docids([number]))

    def _take_documents(self, reading: _Reading, path: str, shown: str) -> None:
        for outcome in read_file(path, self._config.readers, shown=shown):
            problem = outcome if isinstance(outcome, Problem) else None
            if not isinstance(outcome, Problem):
                document = outcome.document
                if flaw := find_problem(document):
                    problem = Problem(outcome.place, f"document {document.docid!r} {flaw}")
                elif owner := self._other_owner(reading, document.docid):
                    reading.has_duplicates = True
                    told = f"duplicate id {document.docid!r}, which {owner} has"
                    problem = Problem(outcome.place, told)
                else:
                    self._put(reading, document)
            if problem is not None:
                reading.skipped += 1
                self._tell(problem)

    def _other_owner(self, reading: _Reading, docid: str) -> str:
        """Name the file that has this docid already and keeps it; empty where it is free."""
        if docid in self._batch.owners:
            return "this sync"
        owner = self._files.owner(docid)
        if owner is None:
            return ""
        if owner.number == reading.number:
            return "the same file" if owner.was_seen else ""
        file = (owner.source, owner.path)
        if file in self._gone or (file in self._ahead and not owner.was_seen):
            return ""
        return f"{owner.source}/{owner.path}"

    def _put(self, reading: _Reading, document: Document) -> None:
        batch = self._batch
        batch.documents.append(document)
        batch.owners[document.docid] = reading.number
        batch.characters += sum(len(text) for texts in document.fields.values() for text in texts)
        reading.documents += 1
        most = self._config.collection.batch_documents
        if len(batch.documents) >= most or batch.characters >= MAX_BATCH_CHARACTERS:
            self._flush()

    def _settle(
        self, reading: _Reading, path: str, shown: str, *, before: tuple[int, int], digest: bytes
    ) -> None:
        """Decide what a file that was read to its end leaves behind."""
        self._done.files_read += 1
        try:
            is_stable = _signature(path) == before
        except OSError:
            is_stable = False
        if not is_stable:
            self._tell(Problem(Place(shown), "changed while it was read; sync again to be sure"))
            return
        if reading.documents or not reading.skipped or _is_blank(path, before[0]):
            self._batch.emptied.append(reading.number)
        if not reading.has_duplicates:  # or else it is read again, lest one of them is missed
            self._end(reading.number, before, digest, skipped=reading.skipped)

    def _end(self, number: int, signature: tuple[int, int], digest: bytes, *, skipped: int) -> None:
        size, written_ns = signature
        if time.time_ns() - written_ns < _FRESH_NS:
            written_ns = -1  # it may be written again within the same tick of the clock
        self._batch.ended.append(
            KnownFile(number, "", size, written_ns, digest, self._how, skipped)
        )
        if len(self._batch.ended) >= self._config.collection.batch_documents:
            self._flush()

    def _flush(self) -> None:
        """Store what waits; only then are the files that end with it known as read."""
        batch, self._batch = self._batch, _Batch()
        if batch.documents:
            self._files.claim(list(batch.owners.items()))
            written = self._sink.add(batch.documents, cut=self._cut)
            self._done.added += written.added
            self._done.updated += written.updated
        dropped = [docid for number in batch.emptied for docid in self._files.unseen(number)]
        if dropped:
            self._done.removed += len(dropped) - len(self._sink.remove(dropped))
            self._files.disown(dropped)
        self._files.finish_files(batch.ended)


def _signature(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _hash_file(path: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.digest()


def _is_blank(path: str, size: int) -> bool:
    """Whether a file holds nothing any more, so that its documents are gone with good reason."""
    if size > _BLANK_BYTES:
        return False
    try:
        with open(path, "rb") as stream:
            return not stream.read(_BLANK_BYTES).strip()
    except OSError:
        return False
