"""The tables of a collection, and opening a database that has them.

A database says which format it is in (`PRAGMA user_version`) and that it is ours (`PRAGMA
application_id`). A format older than this one is migrated if a step for it is listed in
`MIGRATIONS`, otherwise refused; a newer one is always refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from quoth.errors import CollectionError, Damaged, FormatMismatch, NoCollection
from quoth.sqlite_reading import connect_for_reading, has_changed

FORMAT_VERSION = 1
APPLICATION_ID = 0x51_55_4F_54  # "QUOT"

SET_FILE = "shards.json"
"""Stands in a folder of shards, which holds no documents itself."""

_BEGUN = ("collection.db", "sources.db", "writer.lock", "lost+found")
"""How the names begin that may stand where no collection is yet: what a killed writer left, and
what a file system keeps at its root."""

_MOST_NAMED = 3

MIGRATIONS: dict[int, str] = {}
"""Format version → SQL that lifts a collection to the next one."""

_WAIT_SECONDS = 30.0

OWNED = (
    ("passages", "document"),
    ("identifiers", "document"),
    ("filter_values", "row"),
    ("signatures", "row"),
)
"""Tables whose rows belong to a document, and the column that says to which."""

_LATER = "CREATE TABLE IF NOT EXISTS signatures (row INTEGER PRIMARY KEY, signature BLOB NOT NULL)"
"""Added to the same format: who does not know it passes over it, and what lacks it is made anew."""

_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE changes (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('add', 'update', 'remove', 'identify')),
  docid TEXT NOT NULL,
  hash BLOB NOT NULL,
  digest BLOB NOT NULL
);
CREATE TABLE documents (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  docid TEXT NOT NULL,
  hash BLOB NOT NULL,
  content TEXT NOT NULL,
  added INTEGER NOT NULL REFERENCES changes (number),
  removed INTEGER REFERENCES changes (number)
);
CREATE UNIQUE INDEX documents_live ON documents (docid) WHERE removed IS NULL;
CREATE INDEX documents_added ON documents (added);
CREATE INDEX documents_removed ON documents (removed) WHERE removed IS NOT NULL;
CREATE TABLE fields (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE passages (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  document INTEGER NOT NULL,
  field INTEGER NOT NULL REFERENCES fields (id),
  instance INTEGER NOT NULL,
  start INTEGER NOT NULL,
  "end" INTEGER NOT NULL
);
CREATE INDEX passages_document ON passages (document);
CREATE TABLE identifiers (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  document INTEGER NOT NULL,
  origin TEXT NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX identifiers_document ON identifiers (document);
CREATE TABLE filter_values (
  key TEXT NOT NULL, kind INTEGER NOT NULL, value NOT NULL, row INTEGER NOT NULL,
  PRIMARY KEY (key, kind, value, row)
) WITHOUT ROWID;
CREATE INDEX filter_values_row ON filter_values (row);
"""


def require_collection(folder: Path, file_name: str) -> None:
    """Complain helpfully where a folder holds no collection."""
    require_not_lost(folder / file_name)
    if not (folder / file_name).is_file():
        raise _nothing_at(folder)


def require_free(folder: Path, file_name: str) -> None:
    """Complain where a new collection would stand among files that are not its own."""
    if any((folder / name).exists() for name in (file_name, SET_FILE, "lexical")):
        return
    others = _others_in(folder)
    if others:
        raise CollectionError(
            f"{folder} is a folder with other files ({_name_few(others)}), and no collection is"
            f" made among them; name it first, and then what to add:"
            f' "quoth add notes.quoth {folder}"'
        )


def require_not_lost(path: Path) -> None:
    """Complain where an index is left of a collection, but not its documents, or only shards."""
    if (path.parent / SET_FILE).is_file():
        raise CollectionError(
            f"{path.parent} is a collection in shards; open it as one (ShardedEngine in Python), or"
            f' join it with "quoth merge {path.parent} --out COLLECTION"'
        )
    is_there = path.is_file() and path.stat().st_size > 0
    if not is_there and (path.parent / "lexical").exists():
        raise _lost(path)


def _nothing_at(folder: Path) -> NoCollection:
    others = _others_in(folder)
    if others:
        return NoCollection(
            f"there is no collection at {folder}, a folder with other files ({_name_few(others)});"
            f' make one of them with "quoth add notes.quoth {folder}"'
        )
    return NoCollection(
        f'there is no collection at {folder}; make one with "quoth add {folder} SOURCE"'
    )


def _others_in(folder: Path) -> list[str]:
    """List what is in a folder and no beginning of a collection; hidden files do not count."""
    try:
        names = sorted(each.name for each in folder.iterdir())
    except OSError:  # whoever uses it next says why
        return []
    return [name for name in names if not name.startswith((".", *_BEGUN))]


def _name_few(names: Sequence[str]) -> str:
    """Name the first few.

    >>> _name_few(["a.md", "b.md", "c.md", "d.md"]), _name_few(["a.md"])
    ('a.md, b.md, c.md, …', 'a.md')
    """
    return ", ".join((*names[:_MOST_NAMED], *("…",) * (len(names) > _MOST_NAMED)))


def _lost(path: Path) -> Damaged:
    return Damaged(
        f"{path} is missing or empty: the documents of this collection are gone;"
        " restore the file from a backup, or remove the folder and add the documents again"
    )


def _require_never_used(path: Path, *, write: bool) -> None:
    """Complain where a database without tables is not one that is just being made.

    Whoever is killed while making it leaves such a file, which the next writer takes over.
    """
    if (path.parent / "lexical").exists():
        raise _lost(path)
    if not write:
        raise _nothing_at(path.parent)


def connect(path: Path, *, write: bool) -> tuple[sqlite3.Connection, Callable[[], bool]]:
    """Open a database that is ours and in this format; a writer makes or migrates one.

    Also returns what tells whether the database must be opened anew (see `sqlite_reading`).
    """
    if write:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rwc",
            uri=True,
            isolation_level=None,
            timeout=_WAIT_SECONDS,
            check_same_thread=False,
        )
        stamp = None
    else:
        connection, stamp = connect_for_reading(path, timeout=_WAIT_SECONDS)
    try:
        if _is_blank(connection):
            _require_never_used(path, write=write)
        if write:
            _prepare(connection, path)
        _require_ours(connection, path)
        _check_format(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection, lambda: stamp is not None and has_changed(path, stamp)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Set a writer's promises, and make or migrate the tables in one transaction."""
    if not _is_blank(connection):
        _require_ours(connection, path)  # before anything is written to it
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # removed documents leave no text behind
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _is_blank(connection):
            _execute_all(connection, _TABLES)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        while (version := _pragma(connection, "user_version")) in MIGRATIONS:
            _execute_all(connection, MIGRATIONS[version])
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute(_LATER)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _require_ours(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise Damaged(f"{path} is a database, but not one that Quoth wrote")


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    version = _pragma(connection, "user_version")
    if version == FORMAT_VERSION:
        return
    if version > FORMAT_VERSION:
        advice = "upgrade Quoth to read it"
    elif version in MIGRATIONS:
        advice = f'migrate it with "quoth verify {path.parent} --repair"'
    else:
        advice = "open it with the Quoth that wrote it, or add the documents to a new collection"
    raise FormatMismatch(
        f"{path} is in format {version}, but this Quoth reads format {FORMAT_VERSION}; {advice}"
    )


def _is_blank(connection: sqlite3.Connection) -> bool:
    has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    return _pragma(connection, "user_version") == 0 and not has_tables


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _execute_all(connection: sqlite3.Connection, script: str) -> None:
    """Run each statement inside the open transaction (`executescript` would commit it)."""
    for statement in script.split(";"):
        if statement.strip():
            connection.execute(statement)
