"""An SQLite connection that speaks our errors, and transactions that end one way or the other.

A statement stops soon after the work that it is part of was told to (see `interruption`). A write
that is stopped is undone whole, like any other that fails.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from quoth.errors import Busy, Damaged, Interrupted, QuothError, StorageFull
from quoth.interruption import Interruption, current_interruption, interruptible
from quoth.open_files import can_open_files, out_of_files, says_out_of_files
from quoth.sqlite_writing import insert_many
from quoth.storage_failures import storage_failed

_NEVER = Interruption()
_STEPS_BETWEEN_CHECKS = 10_000  # of SQLite's machine; about a tenth of a millisecond

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite may raise; the latter where its own message quotes an altered page."""


class Database:
    """One connection; every failure becomes an error of ours that names the file."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self._flags = bytearray()
        connection.create_function("flag", 2, self._flags.__setitem__)
        connection.set_progress_handler(_is_to_stop, _STEPS_BETWEEN_CHECKS)

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def run(self, sql: str, parameters: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """Execute one statement."""
        try:
            return self.connection.execute(sql, parameters)
        except SQLITE_ERRORS as error:
            raise explain_failure(self.path, error) from error

    def run_many(self, sql: str, parameters: Iterable[tuple[object, ...]]) -> None:
        """Execute one statement for each tuple of parameters."""
        try:
            self.connection.executemany(sql, parameters)
        except SQLITE_ERRORS as error:
            raise explain_failure(self.path, error) from error

    def insert_many(self, into: str, rows: Iterable[tuple[object, ...]], *, width: int) -> None:
        """Insert rows of so many values into columns of a table, in order."""
        try:
            insert_many(self.connection, into, rows, width=width)
        except SQLITE_ERRORS as error:
            raise explain_failure(self.path, error) from error

    def all(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        """Fetch all rows of a query."""
        try:
            return self.connection.execute(sql, parameters).fetchall()
        except SQLITE_ERRORS as error:
            raise explain_failure(self.path, error) from error

    def flag_rows(self, sql: str, parameters: tuple[object, ...], *, size: int) -> bytes:
        """Return one byte for each number below `size`: 1 where a query's column `row` has it.

        SQLite sets the bytes itself, in half the time that fetching rows takes.
        """
        self._flags[:] = bytes(size)
        self.all(f"SELECT count(flag(row, 1)) FROM ({sql})", parameters)
        return bytes(self._flags)

    def portions(
        self, sql: str, parameters: tuple[object, ...], *, size: int
    ) -> Iterator[list[Any]]:
        """Yield the rows of a query, so many at a time."""
        try:
            cursor = self.connection.execute(sql, parameters)
            while some := cursor.fetchmany(size):
                yield some
        except SQLITE_ERRORS as error:
            raise explain_failure(self.path, error) from error

    def one(self, sql: str, parameters: tuple[object, ...] = ()) -> Any:
        """Fetch the first column of the first row."""
        return self.all(sql, parameters)[0][0]

    def stream(self, sql: str, parameters: tuple[object, ...] = ()) -> Iterator[Any]:
        """Yield the rows of a query without holding them."""
        try:
            # Not `yield from`: it would close the cursor, perhaps after the connection.
            for found in self.connection.execute(sql, parameters):  # noqa: UP028
                yield found
        except SQLITE_ERRORS as error:
            raise explain_failure(self.path, error) from error

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one consistent state until the block ends; inside another one, that one's."""
        if self.connection.in_transaction:
            yield
            return
        self._control("BEGIN")
        try:
            yield
        finally:
            self._control("COMMIT")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all or nothing: durable when the block has ended, undone when it raises."""
        try:
            self._control("BEGIN IMMEDIATE")
            yield
            self._control("COMMIT")
        except BaseException:
            self.undo_unfinished()
            raise

    def undo_unfinished(self) -> None:
        """Roll back what is open; an interrupt may strike before a block guards its transaction."""
        if self.connection.in_transaction:
            with contextlib.suppress(QuothError):  # what went wrong first is what counts
                self._control("ROLLBACK")

    def _control(self, sql: str) -> None:
        """Begin or end a transaction, which must not be stopped halfway."""
        with interruptible(_NEVER):
            self.run(sql)


def _is_to_stop() -> bool:
    given = current_interruption()
    return given is not None and given.is_due


def _is_for_want_of_files(name: str, error: Exception) -> bool:
    """Whether SQLite could not open a file; it does not say why, so find out."""
    is_open = name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY_CANTINIT"))
    return says_out_of_files(error) or (is_open and not can_open_files())


def explain_failure(path: Path, error: Exception) -> QuothError:
    """Say in our own terms why SQLite refused."""
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_INTERRUPT":
        return Interrupted("the work was given up while SQLite was at it")
    if name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"):
        return StorageFull(
            f"{path} could not be written: the disk is full or limited;"
            " everything acknowledged before is kept, so free some space and run the command again"
        )
    if name.startswith("SQLITE_BUSY"):
        return Busy(f"another process is writing to {path}; try again when it has finished")
    if _is_for_want_of_files(name, error):
        return out_of_files(path)
    if name.startswith(("SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_CANTOPEN")):
        return storage_failed(path, error)
    return Damaged(f'{path} cannot be used ({error}); run "quoth verify {path.parent}" for more')
