"""What is known of every file that a collection is kept in step with, in `sources.db`.

A file has a signature (size, time of writing) that tells quickly whether to look at it, and a hash
of its content, which decides. Every document of a file is owned by it. A docid is claimed before
its document is stored, and a signature is kept after all documents of a file are, so whatever a
kill leaves behind, the next time the file is read again and nothing is left without an owner.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from quoth.collection.database import SQLITE_ERRORS, Database, explain_failure
from quoth.errors import Damaged

FILE_NAME = "sources.db"
_VERSION = 1
_UNKNOWN = -1  # a time of writing that no file has

_TABLES = (
    "CREATE TABLE files (id INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL,"
    " size INTEGER NOT NULL, written_ns INTEGER NOT NULL, digest BLOB NOT NULL,"
    " how TEXT NOT NULL, skipped INTEGER NOT NULL, UNIQUE (source, path))",
    "CREATE TABLE owned (docid TEXT PRIMARY KEY, file INTEGER NOT NULL, seen INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "CREATE INDEX owned_file ON owned (file)",
    "CREATE TABLE runs (number INTEGER NOT NULL)",
    "INSERT INTO runs VALUES (0)",
    f"PRAGMA user_version = {_VERSION}",
)


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as it was when it was last read."""

    number: int
    path: str
    size: int
    written_ns: int
    digest: bytes
    how: str
    """With which settings it was read."""

    skipped: int
    """How many pieces of it could not be read."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The file that a document is from, and whether the document was seen there in this run."""

    number: int
    source: str
    path: str
    was_seen: bool


class SourceFiles:
    """The files of all folders of one collection."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._run = 0

    @classmethod
    def open(cls, collection: Path) -> Self:
        """Open what is known, or begin to know; one writer at a time, by the collection's lock."""
        path = collection / FILE_NAME
        try:
            connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            database = Database(connection, path)
        except SQLITE_ERRORS as error:
            raise explain_failure(path, error) from error
        files = cls(database)
        try:
            files._prepare()
        except BaseException:
            database.close()
            raise
        return files

    @classmethod
    def none(cls) -> Self:
        """Return what is known where nothing is, without a file."""
        files = cls(Database(sqlite3.connect(":memory:", isolation_level=None), Path(FILE_NAME)))
        files._prepare()
        return files

    def _prepare(self) -> None:
        version = int(self._db.one("PRAGMA user_version"))
        if version == 0:
            with self._db.transaction():
                for statement in _TABLES:
                    self._db.run(statement)
        elif version != _VERSION:
            raise Damaged(
                f"{self._db.path} is in format {version}, but this Quoth reads {_VERSION}; remove"
                " the file, and the next sync reads all files again"
            )

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    # Reading ---------------------------------------------------------------------------------

    def known(self, source: str) -> dict[str, KnownFile]:
        """Return what is known of a folder's files, by path."""
        found = self._db.all(
            "SELECT id, path, size, written_ns, digest, how, skipped FROM files WHERE source = ?",
            (source,),
        )
        return {each[1]: KnownFile(*each) for each in found}

    def count_documents(self, numbers: Iterable[int]) -> int:
        """Count the documents that files own."""
        return int(
            self._db.one(
                "SELECT count(*) FROM owned WHERE file IN (SELECT value FROM json_each(?))",
                (json.dumps(list(numbers)),),
            )
        )

    def docids(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """List the documents that files own, in order of docid."""
        found = self._db.all(
            "SELECT docid FROM owned WHERE file IN (SELECT value FROM json_each(?)) ORDER BY docid",
            (json.dumps(list(numbers)),),
        )
        return tuple(docid for (docid,) in found)

    def owned_by(self, source: str) -> Iterator[tuple[str, int]]:
        """Yield the documents of a folder, with the number of the file that owns each."""
        return iter(
            self._db.all(
                "SELECT docid, file FROM owned JOIN files ON files.id = file WHERE source = ?",
                (source,),
            )
        )

    def known_file(self, source: str, path: str) -> KnownFile | None:
        """Return what is known of one file, None where nothing is."""
        for found in self._db.all(
            "SELECT id, path, size, written_ns, digest, how, skipped FROM files"
            " WHERE source = ? AND path = ?",
            (source, path),
        ):
            return KnownFile(*found)
        return None

    def owner(self, docid: str) -> Owner | None:
        """Say which file owns a document, None where none does."""
        for number, source, path, seen in self._db.all(
            "SELECT file, source, path, seen FROM owned JOIN files ON files.id = file"
            " WHERE docid = ?",
            (docid,),
        ):
            return Owner(number, source, path, was_seen=seen == self._run)
        return None

    # Writing ---------------------------------------------------------------------------------

    def begin_run(self) -> None:
        """Begin to look at files; what is claimed from now on was seen in this run."""
        self._db.run("UPDATE runs SET number = number + 1")
        self._run = int(self._db.one("SELECT number FROM runs"))

    def begin_file(self, source: str, path: str) -> int:
        """Return the number of a file that is about to be read; its signature is void till then.

        It is durable once documents are claimed; a commit for each file would take longer than
        reading it.
        """
        if not self._db.connection.in_transaction:
            self._db.run("BEGIN IMMEDIATE")
        self._db.run(
            "INSERT INTO files (source, path, size, written_ns, digest, how, skipped)"
            " VALUES (?, ?, 0, ?, x'', '', 0) ON CONFLICT DO UPDATE SET"
            " written_ns = excluded.written_ns, digest = excluded.digest",
            (source, path, _UNKNOWN),
        )
        return int(
            self._db.one("SELECT id FROM files WHERE source = ? AND path = ?", (source, path))
        )

    def claim(self, owners: Sequence[tuple[str, int]]) -> None:
        """Let files own documents, given as docid and number, before these are stored."""
        with self._transaction():
            self._db.run_many(
                f"INSERT INTO owned VALUES (?, ?, {self._run}) ON CONFLICT DO UPDATE SET"
                " file = excluded.file, seen = excluded.seen",
                owners,
            )

    def unseen(self, number: int) -> tuple[str, ...]:
        """List the documents that a file owns but no longer holds."""
        found = self._db.all(
            "SELECT docid FROM owned WHERE file = ? AND seen <> ?", (number, self._run)
        )
        return tuple(docid for (docid,) in found)

    def disown(self, docids: Sequence[str]) -> None:
        """Forget who owns documents."""
        with self._transaction():
            self._db.run_many("DELETE FROM owned WHERE docid = ?", ((each,) for each in docids))

    def finish_files(self, files: Sequence[KnownFile]) -> None:
        """Keep the signatures of files whose documents are all stored."""
        with self._transaction():
            self._db.run_many(
                "UPDATE files SET size = ?, written_ns = ?, digest = ?, how = ?, skipped = ?"
                " WHERE id = ?",
                (
                    (each.size, each.written_ns, each.digest, each.how, each.skipped, each.number)
                    for each in files
                ),
            )

    def forget_files(self, numbers: Sequence[int]) -> None:
        """Forget files, and who owns their documents."""
        with self._transaction():
            some = [(number,) for number in numbers]
            self._db.run_many("DELETE FROM owned WHERE file = ?", some)
            self._db.run_many("DELETE FROM files WHERE id = ?", some)

    def forget_source(self, source: str) -> int:
        """Forget a folder; its documents belong to nobody from now on. Returns how many."""
        numbers = [each.number for each in self.known(source).values()]
        count = self.count_documents(numbers)
        self.forget_files(numbers)
        return count

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all or nothing, together with the files that were begun."""
        if not self._db.connection.in_transaction:
            self._db.run("BEGIN IMMEDIATE")
        try:
            yield
            self._db.run("COMMIT")
        except BaseException:
            self._db.undo_unfinished()
            raise

    def copy_to(self, collection: Path) -> None:
        """Copy everything for another collection that holds the same documents."""
        with contextlib.closing(sqlite3.connect(collection / FILE_NAME)) as target:
            try:
                self._db.connection.backup(target)
            except SQLITE_ERRORS as error:
                raise explain_failure(collection / FILE_NAME, error) from error


@contextlib.contextmanager
def open_files(collection: Path) -> Iterator[SourceFiles]:
    """Open what is known of files for reading, without making anything."""
    there = (collection / FILE_NAME).is_file()
    with contextlib.closing(SourceFiles.open(collection) if there else SourceFiles.none()) as files:
        yield files


def check_files(collection: Path, *, repair: bool) -> tuple[str, ...]:
    """Say what is wrong with `sources.db`; `repair` drops it, so that all files are read again."""
    path = collection / FILE_NAME
    if not path.is_file():
        return ()
    try:
        with contextlib.closing(SourceFiles.open(collection)) as files:
            found = [line for (line,) in files._db.all("PRAGMA integrity_check(5)")]
            problems = tuple(f"{path}: {line}" for line in found if line != "ok")
    except Damaged as error:
        problems = (str(error),)
    if problems and repair:
        for each in (path, path.with_name(f"{FILE_NAME}-journal")):
            each.unlink(missing_ok=True)
    return problems
