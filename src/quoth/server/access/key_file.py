"""The file that keys are kept in: read in one piece, rewritten in one step, one writer at a time.

What the lines mean is for `keys.py` to say. The lock is a file of its own beside the keys,
since every rewrite puts a new file in place of the old one; SQLite takes it, on every system.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quoth.artifact import sync_folder
from quoth.errors import ConfigError

_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one state of a file from another: it differs after every change of the file.

    The change time is part of it, because new permissions leave the modification time as it was.
    """

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        """Return the stamp of a file, by what the system says of it."""
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class FileState:
    """The content of a file and the stamp it had when it was read."""

    stamp: Stamp
    text: str


def read_state(path: Path) -> FileState:
    """Read a file; the stamp is that of the very file that was read."""
    with path.open("rb") as stream:
        stamp = Stamp.of(os.fstat(stream.fileno()))
        return FileState(stamp, stream.read().decode("utf-8"))


def find_stamp(path: Path) -> Stamp | None:
    """Return the stamp of a file, None where there is none."""
    try:
        return Stamp.of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def replace_text(path: Path, text: str) -> None:
    """Replace a file in one step by one that only its owner can read.

    The owner stays who it was, so that a server under an account of its own can go on reading keys
    that the administrator changes. A link stays a link: the file that it points to is replaced.
    """
    target = path.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as stream:
            _keep_owner(stream.fileno(), target)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
    sync_folder(target.parent)


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Be the only one who rewrites a file until the block ends; the system frees a dead one's."""
    target = path.resolve()
    lock = target.with_name(f"{target.name}.lock")
    try:
        connection = sqlite3.connect(lock, timeout=_LOCK_SECONDS, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise ConfigError(f"{lock} cannot be made ({error}); may you write there?") from error
    with contextlib.closing(connection):
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            raise ConfigError(
                f"{lock} cannot be locked ({error}); if another command is changing {path}, try"
                " again when it has ended"
            ) from error
        yield


def _keep_owner(handle: int, target: Path) -> None:
    """Give a new file the owner of the one that it is to replace."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    new = os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(handle, old.st_uid, old.st_gid)
