"""Look for damage in a collection's database: its structure, its documents, and their traces.

SQLite's own check covers the pages; a hash covers each document; and since passages, filter values
and the set of live documents all follow from documents and log, they are derived again and
compared.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from quoth.collection.content import chain_digest, hash_content, read_content
from quoth.collection.filters import filter_entries
from quoth.records import Document, Passage

PassageKey = tuple[str, int, int, int]
"""Field, instance, start, end."""

_AT_ONCE = 500  # documents


def find_damage(
    connection: sqlite3.Connection, path: Path, *, cut: Callable[[Document], tuple[Passage, ...]]
) -> Iterator[str]:
    """Yield a sentence for everything that is not as it was written."""
    try:
        for (line,) in connection.execute("PRAGMA integrity_check(20)").fetchall():
            if line != "ok":
                yield f"{path}: {line}"
        yield from (f"{path}: {problem}" for problem in _check_log(connection))
        yield from (f"{path}: {problem}" for problem in _check_documents(connection, cut))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        yield f"{path} cannot be read to its end ({error})"


def _check_log(connection: sqlite3.Connection) -> Iterator[str]:
    """Follow the chain of digests, and compare the live documents with what the log says."""
    previous = b""
    for number, kind, docid, digest, chained in connection.execute(
        "SELECT number, kind, docid, hash, digest FROM changes ORDER BY number"
    ):
        try:
            expected = chain_digest(previous, kind=kind, docid=docid, digest=digest)
        except TypeError:  # a flipped bit can make a number or nothing of a digest
            expected = b""
        if chained != expected:
            yield f"the log of changes was altered at change {number}"
            return
        previous = chained
    differing = connection.execute(
        "SELECT c.docid FROM (SELECT docid, max(number) AS number, kind, hash FROM changes"
        "   WHERE kind <> 'identify' GROUP BY docid) AS c"  # kind and hash of the last change
        " LEFT JOIN documents AS d ON d.docid = c.docid AND d.removed IS NULL"
        " WHERE (c.kind = 'remove') <> (d.row IS NULL) OR d.added <> c.number OR d.hash <> c.hash"
        " LIMIT 5"
    ).fetchall()
    for (docid,) in differing:
        yield f"document {docid!r} is not as the log of changes left it"
    (surplus,) = connection.execute(
        "SELECT count(*) FROM documents AS d WHERE removed IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM changes AS c WHERE c.number = d.added AND c.docid = d.docid)"
    ).fetchone()
    if surplus:
        yield f"{surplus} documents are not in the log of changes"


def _check_documents(
    connection: sqlite3.Connection, cut: Callable[[Document], tuple[Passage, ...]]
) -> Iterator[str]:
    """Check documents, and what follows from them, some at a time."""
    cursor = connection.execute(
        "SELECT row, docid, content, hash, removed FROM documents ORDER BY row"
    )
    while some := cursor.fetchmany(_AT_ONCE):
        live = json.dumps([row for row, *_rest, removed in some if removed is None])
        passages, filters = _stored_passages(connection, live), _stored_filters(connection, live)
        for row, docid, content, digest, removed in some:
            if not _is_intact(docid, content, digest):
                yield f"document {docid!r} was altered; add its source again to restore it"
            elif removed is None:
                document = read_content(docid, content)
                if passages.get(row, []) != _cut_passages(document, cut):
                    yield f"the passages of document {docid!r} differ from its text"
                if filters.get(row, set()) != set(filter_entries(document)):
                    yield f"the filter values of document {docid!r} differ from its metadata"


def _is_intact(docid: str, content: str, digest: bytes) -> bool:
    try:
        return hash_content(docid, content) == digest
    except (TypeError, UnicodeError, AttributeError):
        return False


def _cut_passages(
    document: Document, cut: Callable[[Document], tuple[Passage, ...]]
) -> list[PassageKey]:
    return [(each.field, each.instance, each.span.start, each.span.end) for each in cut(document)]


def _stored_passages(connection: sqlite3.Connection, rows: str) -> dict[int, list[PassageKey]]:
    """Return the passages of documents, whose rows are given as JSON, in their order."""
    found: dict[int, list[PassageKey]] = {}
    for row, *key in connection.execute(
        'SELECT document, name, instance, start, "end" FROM passages'
        " LEFT JOIN fields ON fields.id = field"
        " WHERE document IN (SELECT value FROM json_each(?)) ORDER BY +passages.row",
        (rows,),
    ):
        found.setdefault(row, []).append(tuple(key))
    return found


def _stored_filters(
    connection: sqlite3.Connection, rows: str
) -> dict[int, set[tuple[str, int, object]]]:
    """Return the filter values of documents, whose rows are given as JSON."""
    found: dict[int, set[tuple[str, int, object]]] = {}
    for row, *entry in connection.execute(
        "SELECT row, key, kind, value FROM filter_values"
        " WHERE row IN (SELECT value FROM json_each(?))",
        (rows,),
    ):
        found.setdefault(row, set()).add(tuple(entry))
    return found
