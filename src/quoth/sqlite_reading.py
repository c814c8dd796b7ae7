"""Open an SQLite file for reading, also where this user may write nothing.

A reader of a file with a write-ahead log makes a file of shared memory beside it, which read-only
media and folders of other users do not allow. There the file is opened as one that nobody changes,
if its log is empty. Should its owner write to it later, `has_changed` tells, and it must be opened
anew.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from quoth.errors import CollectionError

_Stamp = tuple[int, int, int]


def can_write_beside(path: Path) -> bool:
    """Whether this user may make files in the folder of a file."""
    return os.access(path.parent, os.W_OK)


def connect_for_reading(path: Path, *, timeout: float) -> tuple[sqlite3.Connection, _Stamp | None]:
    """Open a file; the stamp is given where nobody may change it as long as it is open."""
    connection = _connect(path, "mode=ro", timeout)
    if can_write_beside(path):
        return connection, None
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if _has_log(path):
            raise CollectionError(
                f"{path} was not closed by whoever wrote to it last, and this user may not write to"
                f' its folder; have its owner run "quoth verify {path.parent}", or copy the'
                " collection to a place of your own"
            ) from error
        return _connect(path, "mode=ro&immutable=1", timeout), read_stamp(path)
    except BaseException:
        connection.close()
        raise
    return connection, None


def has_changed(path: Path, stamp: _Stamp) -> bool:
    """Whether a file that nobody was to change did change."""
    return _has_log(path) or read_stamp(path) != stamp


def read_stamp(path: Path) -> _Stamp:
    """Tell a file from what it may become."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _has_log(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    return False


def _connect(path: Path, how: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        isolation_level=None,
        timeout=timeout,
        check_same_thread=False,
    )
