"""An SQLite connection that speaks our errors, and transactions that end one way or the other."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from quoth.errors import Busy, CollectionError, Damaged, StorageFull


class Database:
    """One connection; every failure becomes a `CollectionError` that names the file."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def run(self, sql: str, parameters: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """Execute one statement."""
        try:
            return self.connection.execute(sql, parameters)
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error

    def run_many(self, sql: str, parameters: Iterable[tuple[object, ...]]) -> None:
        """Execute one statement for each tuple of parameters."""
        try:
            self.connection.executemany(sql, parameters)
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error

    def all(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        """Fetch all rows of a query."""
        try:
            return self.connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error

    def one(self, sql: str, parameters: tuple[object, ...] = ()) -> Any:
        """Fetch the first column of the first row."""
        return self.all(sql, parameters)[0][0]

    def stream(self, sql: str, parameters: tuple[object, ...] = ()) -> Iterator[Any]:
        """Yield the rows of a query without holding them."""
        try:
            yield from self.connection.execute(sql, parameters)
        except sqlite3.Error as error:
            raise explain_failure(self.path, error) from error

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one consistent state until the block ends; inside another one, that one's."""
        if self.connection.in_transaction:
            yield
            return
        self.run("BEGIN")
        try:
            yield
        finally:
            self.run("COMMIT")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all or nothing: durable when the block has ended, undone when it raises."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise


def explain_failure(path: Path, error: sqlite3.Error) -> CollectionError:
    """Say in our own terms why SQLite refused."""
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR_WRITE"):
        return StorageFull(
            f"{path} could not be written: the disk is full or limited;"
            " everything acknowledged before is kept, so free some space and run the command again"
        )
    if name.startswith("SQLITE_BUSY"):
        return Busy(f"another process is writing to {path}; try again when it has finished")
    return Damaged(f'{path} cannot be used ({error}); run "quoth verify {path.parent}" for more')
