"""A small SQLite file beside an index: derived from the documents, and committed batch by batch."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from quoth.errors import Busy, CollectionError, Damaged, StorageFull
from quoth.open_files import can_open_files, out_of_files, says_out_of_files
from quoth.sqlite_reading import connect_for_reading
from quoth.sqlite_writing import insert_many
from quoth.storage_failures import storage_failed

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite may raise; the latter where its own message quotes an altered page."""

_WAIT_SECONDS = 10.0
_CANNOT_OPEN = ("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY_CANTINIT")


_F = TypeVar("_F", bound="DerivedFile")


class DerivedFile:
    """One connection to such a file; one writer at a time, any number of readers."""

    schema: ClassVar[str]

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    @classmethod
    def open(cls, path: Path, *, write: bool = False) -> Self:
        """Open the file; a writer creates it where it is missing."""
        if not write and not path.exists():
            raise Damaged(f"{path} cannot be read (it is missing)")
        with contextlib.ExitStack() as unless_opened:
            try:
                if write:
                    connection = sqlite3.connect(
                        f"{path.absolute().as_uri()}?mode=rwc",
                        uri=True,
                        isolation_level=None,
                        timeout=_WAIT_SECONDS,
                        check_same_thread=False,
                    )
                else:
                    connection, _stamp = connect_for_reading(path, timeout=_WAIT_SECONDS)
                unless_opened.callback(connection.close)
                if write:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(cls.schema)
            except SQLITE_ERRORS as error:
                raise explain_failure(path, error) from error
            unless_opened.pop_all()
        return cls(connection, path)

    def close(self) -> None:
        """Release the file; what is not yet committed is dropped."""
        self._connection.close()

    def require_readable(self) -> None:
        """Raise where what the file is for cannot be read from it."""
        raise NotImplementedError

    def roll_back(self) -> None:
        """Drop the batch."""
        if self._connection.in_transaction:
            self._run("ROLLBACK")

    def check_structure(self) -> tuple[str, ...]:
        """Let SQLite check the structure of the file; returns what is wrong with it."""
        lines = self._run("PRAGMA integrity_check(5)")
        return tuple(f"{self._path}: {line}" for (line,) in lines if line != "ok")

    def _run(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except SQLITE_ERRORS as error:
            raise explain_failure(self._path, error) from error

    def _run_many(self, sql: str, values: Iterable[tuple[object, ...]]) -> None:
        try:
            self._connection.executemany(sql, values)
        except SQLITE_ERRORS as error:
            raise explain_failure(self._path, error) from error

    def _insert_many(
        self, into: str, rows: Iterable[tuple[object, ...]], *, width: int, otherwise: str = ""
    ) -> None:
        try:
            insert_many(self._connection, into, rows, width=width, otherwise=otherwise)
        except SQLITE_ERRORS as error:
            raise explain_failure(self._path, error) from error


def open_or_replace(path: Path, kind: type[_F]) -> _F:
    """Open a derived file to write it anew, discarding one that is beyond use."""
    try:
        opened = kind.open(path, write=True)
        opened.require_readable()
        return opened
    except Damaged:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        return kind.open(path, write=True)


def explain_failure(path: Path, error: Exception) -> CollectionError:
    """Say in our own terms why SQLite refused."""
    name = getattr(error, "sqlite_errorname", "")
    if name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"):
        return StorageFull(
            f"{path} could not be written: the disk is full or limited; the documents are safe,"
            " and the counts are caught up once there is room"
        )
    if says_out_of_files(error) or (name.startswith(_CANNOT_OPEN) and not can_open_files()):
        return out_of_files(path)
    if name.startswith("SQLITE_BUSY"):
        return Busy(f"another process is writing to {path}; try again when it has finished")
    if name.startswith(("SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_CANTOPEN")):
        return storage_failed(path, error)
    return Damaged(f"{path} cannot be read ({error})")
