"""One writer at a time, across processes, released by the system even when the writer is killed.

The lock is an exclusive transaction on an empty SQLite file: the same on every platform, and it
waits politely.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from quoth.collection.database import explain_failure
from quoth.errors import (
    Busy,
    CollectionError,
    OutOfFiles,
    QuothError,
    StorageFailed,
    StorageFull,
)

FILE_NAME = "writer.lock"


@contextlib.contextmanager
def hold_writer_lock(folder: Path, *, wait_seconds: float) -> Iterator[None]:
    """Be the only writer of a collection until the block ends, or say who must be waited for."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    try:
        connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise _explain(path, error, f"{path} cannot be opened for writing ({error})") from error
    try:
        _take(connection, folder, wait_seconds)
        yield
    finally:
        connection.close()


def _take(connection: sqlite3.Connection, folder: Path, wait_seconds: float) -> None:
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        path = folder / FILE_NAME
        failure = _explain(path, error, f"{path} cannot be locked ({error})")
        if not isinstance(failure, Busy):
            raise failure from error
        raise Busy(
            f"another process is writing to {folder} (waited {wait_seconds:g} s);"
            " try again when it has finished, or wait longer with --collection.wait-seconds"
        ) from error


def _explain(path: Path, error: sqlite3.Error, otherwise: str) -> QuothError:
    """Say why there is no lock; its file holds nothing, so it cannot be damaged."""
    failure = explain_failure(path, error)
    is_plain = isinstance(failure, (Busy, OutOfFiles, StorageFailed, StorageFull))
    return failure if is_plain else CollectionError(otherwise)
