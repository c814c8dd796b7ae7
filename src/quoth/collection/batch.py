"""A batch of documents on its way into the store: gathered first, then written table by table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from quoth.collection.content import chain_digest
from quoth.collection.database import Database
from quoth.collection.preparing import (
    CutDocument,
    Prepared,
    PreparedDocument,
    places_of,
    prepare_document,
)
from quoth.records import Document, Passage

Entry = list[object]


class Batch:
    """Documents to be added or updated within one transaction; `write` brings them to disk.

    A statement per document costs more than all that it writes, so each table gets one.
    """

    def __init__(
        self,
        database: Database,
        docids: Iterable[str],
        *,
        cut: CutDocument | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        """Take documents of these docids; those not prepared are prepared here, with `cut`."""
        self._db = database
        self._cut = cut
        self._prepared = prepared or {}
        self._live = find_live(database, docids)
        self._next_row = _last_number(database, "documents") + 1
        self._number = _last_number(database, "changes")
        self._digest = last_digest(database)
        self._field_ids = field_ids(database)
        self._changes: list[tuple[int, str, str, bytes, bytes]] = []
        self._retired: list[tuple[int, int]] = []
        self._documents: dict[int, Entry] = {}
        self._filter_values: list[tuple[object, ...]] = []
        self._passages: list[tuple[object, ...]] = []
        self._signatures: list[tuple[int, bytes]] = []

    def put(self, document: Document, *, row: int | None = None) -> str:
        """Take a document in, under a given row or the next one; say what becomes of it."""
        live = self._live.get(document.docid)
        stored = None if live is None else live[1]
        ready = self._prepared.get(id(document)) or self._prepare(document, stored)
        if ready.digest == stored:
            return "unchanged"
        if ready.derived is None:  # it was stored when it was prepared, and has been changed since
            ready = self._prepare(document, None)
        for name in document.fields:
            if name not in self._field_ids:
                self._field_ids[name] = _new_field(self._db, name)
        self.put_prepared(document.docid, ready, row=row)
        return "added" if live is None else "updated"

    def put_prepared(self, docid: str, ready: PreparedDocument, *, row: int | None = None) -> None:
        """Take in what is new or was changed, all of whose fields are known."""
        live = self._live.get(docid)
        number = self._log("add" if live is None else "update", docid, ready.digest)
        if live is not None:
            self._retire(live[0], number)
        row = self._next_row if row is None else row
        self._next_row = max(self._next_row, row + 1)
        self._live[docid] = row, ready.digest
        self._documents[row] = [row, docid, ready.digest, ready.content, number, None]
        assert ready.derived is not None
        filters, places, signature = ready.derived
        if filters:
            self._filter_values += [(*entry, row) for entry in filters]
        self._passages += [(row, self._field_ids[name], *rest) for name, *rest in places]
        self._signatures.append((row, signature))

    def _prepare(self, document: Document, stored: bytes | None) -> PreparedDocument:
        cut = self._cut
        assert cut is not None
        return prepare_document(document, place=lambda each: places_of(cut(each)), stored=stored)

    def write(self) -> None:
        """Write everything that was taken in."""
        self._db.insert_many("changes (number, kind, docid, hash, digest)", self._changes, width=5)
        self._db.run_many("UPDATE documents SET removed = ? WHERE row = ?", self._retired)
        self._db.insert_many(
            "documents (row, docid, hash, content, added, removed)",
            map(tuple, self._documents.values()),
            width=6,
        )
        self._db.insert_many("filter_values (key, kind, value, row)", self._filter_values, width=4)
        put_passages(self._db, self._passages)
        self._db.insert_many("signatures (row, signature)", self._signatures, width=2)

    def _log(self, kind: str, docid: str, digest: bytes) -> int:
        self._number += 1
        self._digest = chain_digest(self._digest, kind=kind, docid=docid, digest=digest)
        self._changes.append((self._number, kind, docid, digest, self._digest))
        return self._number

    def _retire(self, row: int, number: int) -> None:
        """Let a version end, be it on disk already or of this very batch."""
        if row in self._documents:
            self._documents[row][-1] = number
        else:
            self._retired.append((number, row))


def field_ids(database: Database) -> dict[str, int]:
    """Return the number of each field that is known."""
    return dict(database.all("SELECT name, id FROM fields"))


def last_digest(database: Database) -> bytes:
    """Return the digest that the change log ends in; empty where there is none."""
    last = database.all("SELECT digest FROM changes ORDER BY number DESC LIMIT 1")
    return bytes(last[0][0]) if last else b""


def passage_entries(
    row: int, passages: Iterable[Passage], numbers: Mapping[str, int]
) -> list[tuple[object, ...]]:
    """Write the passages of a document's row as they are stored."""
    return [
        (row, numbers[each.field], each.instance, each.span.start, each.span.end)
        for each in passages
    ]


def put_passages(database: Database, entries: Sequence[tuple[object, ...]]) -> None:
    """Store passages, in their order."""
    database.insert_many('passages (document, field, instance, start, "end")', entries, width=5)


def find_live(database: Database, docids: Iterable[str]) -> dict[str, tuple[int, bytes]]:
    """Find the row and the hash of each document that is there; others are left out."""
    found = database.all(
        "SELECT docid, row, hash FROM documents"
        " WHERE removed IS NULL AND docid IN (SELECT value FROM json_each(?))",
        (json.dumps([docid for docid in docids if isinstance(docid, str)]),),
    )
    return {docid: (row, digest) for docid, row, digest in found}


def _last_number(database: Database, table: str) -> int:
    """Return the last number that a table gave out; none is ever given out again."""
    found = database.all("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
    return int(found[0][0]) if found else 0


def _new_field(database: Database, name: str) -> int:
    identity = database.run("INSERT INTO fields (name) VALUES (?)", (name,)).lastrowid
    assert identity is not None
    return identity
