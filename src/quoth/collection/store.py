"""The only truth on disk: documents, passages, identifiers and a log of changes, in SQLite.

Every version of a document has a row of its own, never reused. An update adds a row and retires the
old one under the same change number; retired rows keep their content until every derived index has
caught up (`forget`), so an index can always subtract what it once added. A write is acknowledged
when SQLite has committed it with synchronous = FULL. One writer at a time (see `lock.py`), any
number of readers, each on one consistent state inside `snapshot`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from quoth.collection import schema
from quoth.collection.content import (
    chain_digest,
    find_problem,
    hash_content,
    read_content,
    write_content,
)
from quoth.collection.damage import find_damage
from quoth.collection.database import Database, explain_failure
from quoth.collection.filter_syntax import Condition
from quoth.collection.filters import filter_entries, to_sql
from quoth.errors import CorpusError, Damaged
from quoth.records import Document, Passage, Span

FILE_NAME = "collection.db"
CutDocument = Callable[[Document], tuple[Passage, ...]]


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch did: documents added, updated, and left alone because nothing changed."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its row, for those who keep an index of rows."""

    row: int
    document: Document


class Store:
    """Documents on disk; see the module's docstring for its promises."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.path = database.path

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Open the collection in this folder for writing, making an empty one if there is none."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls._connect(folder / FILE_NAME, mode="rwc")

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open an existing collection for reading."""
        schema.require_collection(folder, FILE_NAME)
        return cls._connect(folder / FILE_NAME, mode="ro")

    @classmethod
    def _connect(cls, path: Path, *, mode: str) -> Self:
        try:
            return cls(Database(schema.connect(path, mode=mode), path))
        except sqlite3.Error as error:
            raise explain_failure(path, error) from error

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    def snapshot(self) -> AbstractContextManager[None]:
        """Read one consistent state until the block ends, whatever others write meanwhile."""
        return self._db.snapshot()

    # What the collection is like -------------------------------------------------------------

    @property
    def change(self) -> int:
        """Number of the last acknowledged change, 0 for none."""
        return int(self._db.one("SELECT coalesce(max(number), 0) FROM changes"))

    def log_digest(self, change: int) -> str:
        """Name the history up to a change: equal only where all changes so far are equal."""
        for (digest,) in self._db.all("SELECT digest FROM changes WHERE number = ?", (change,)):
            return bytes(digest).hex()
        return ""

    @property
    def forgotten(self) -> int:
        """Number of the last change whose removed content may be gone."""
        return int(self.setting("forgotten") or 0)

    @property
    def num_documents(self) -> int:
        """Live documents."""
        return int(self._db.one("SELECT count(*) FROM documents WHERE removed IS NULL"))

    @property
    def num_passages(self) -> int:
        """Passages of live documents."""
        return int(
            self._db.one(
                "SELECT count(*) FROM passages JOIN documents ON documents.row = document"
                " WHERE removed IS NULL"
            )
        )

    def fields(self) -> tuple[str, ...]:
        """Names of all fields ever seen, in order of first appearance."""
        return tuple(name for (name,) in self._db.all("SELECT name FROM fields ORDER BY id"))

    def setting(self, name: str) -> Any:
        """Read a value kept with the collection, None where it was never set."""
        for (value,) in self._db.all("SELECT value FROM settings WHERE name = ?", (name,)):
            return json.loads(value)
        return None

    def set_setting(self, name: str, value: object) -> None:
        """Keep a JSON value with the collection."""
        self._db.run(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            (name, json.dumps(value, sort_keys=True)),
        )

    # Writing ---------------------------------------------------------------------------------

    def add(self, documents: Sequence[Document], *, cut: CutDocument) -> Written:
        """Add or update a batch in one transaction; it is durable when this returns."""
        counts = {"added": 0, "updated": 0, "unchanged": 0}
        with self._db.transaction():
            field_ids = self._field_ids()
            for document in documents:
                counts[self._put(document, cut, field_ids)] += 1
        return Written(**counts)

    def remove(self, docids: Iterable[str]) -> tuple[str, ...]:
        """Remove documents in one transaction; returns those docids that were not there."""
        missing = []
        with self._db.transaction():
            for docid in docids:
                live = self._live(docid)
                if live is None:
                    missing.append(docid)
                else:
                    self._retire(live[0], self._log("remove", docid, live[1]))
        return tuple(missing)

    def put_identifiers(
        self, texts_by_docid: Mapping[str, Sequence[str]], *, origin: str
    ) -> tuple[str, ...]:
        """Replace one origin's identifiers of documents; returns docids that were not there."""
        missing = []
        with self._db.transaction():
            for docid, texts in texts_by_docid.items():
                live = self._live(docid)
                if live is None:
                    missing.append(docid)
                    continue
                self._log("identify", docid, hash_content(docid, json.dumps([origin, *texts])))
                self._db.run(
                    "DELETE FROM identifiers WHERE document = ? AND origin = ?", (live[0], origin)
                )
                self._db.run_many(
                    "INSERT INTO identifiers (document, origin, text) VALUES (?, ?, ?)",
                    ((live[0], origin, text) for text in texts),
                )
        return tuple(missing)

    def recut(self, *, cut: CutDocument) -> None:
        """Cut the passages of all documents anew, as after a change of the passage settings."""
        with self._db.transaction():
            self._db.run("DELETE FROM passages")
            field_ids = self._field_ids()
            for stored in self.live_documents():
                self._put_passages(stored.row, cut(stored.document), field_ids)

    def forget(self, *, upto: int) -> int:
        """Drop the content of documents retired by change `upto` or before; returns how many."""
        with self._db.transaction():
            retired = "SELECT row FROM documents WHERE removed <= ?"
            for table, column in schema.OWNED:
                self._db.run(f"DELETE FROM {table} WHERE {column} IN ({retired})", (upto,))
            count = self._db.run("DELETE FROM documents WHERE removed <= ?", (upto,)).rowcount
            if count:
                self.set_setting("forgotten", upto)
            return count

    # Reading ---------------------------------------------------------------------------------

    def get(self, docid: str) -> Document | None:
        """Find a live document by its docid."""
        for row, content in self._db.all(
            "SELECT row, content FROM documents WHERE docid = ? AND removed IS NULL", (docid,)
        ):
            return self._read(row, docid, content)
        return None

    def docids(self, rows: Sequence[int]) -> dict[int, str]:
        """Map rows to docids, retired rows included as long as they are kept."""
        return dict(
            self._db.all(
                "SELECT row, docid FROM documents WHERE row IN (SELECT value FROM json_each(?))",
                (json.dumps(rows),),
            )
        )

    def all_docids(self) -> tuple[str, ...]:
        """List the docids of all live documents, in row order."""
        found = self._db.all("SELECT docid FROM documents WHERE removed IS NULL ORDER BY row")
        return tuple(docid for (docid,) in found)

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Map rows to documents, retired rows included as long as they are kept."""
        found = self._db.all(
            "SELECT row, docid, content FROM documents"
            " WHERE row IN (SELECT value FROM json_each(?))",
            (json.dumps(rows),),
        )
        return {row: self._read(row, docid, content) for row, docid, content in found}

    def rows(self, docids: Sequence[str]) -> dict[str, int]:
        """Map docids to their newest rows, retired ones included as long as they are kept."""
        return dict(
            self._db.all(
                "SELECT docid, max(row) FROM ("
                "SELECT docid, row FROM documents WHERE removed IS NULL"
                " AND docid IN (SELECT value FROM json_each(?1)) UNION ALL "
                "SELECT docid, row FROM documents WHERE removed IS NOT NULL"
                " AND docid IN (SELECT value FROM json_each(?1))) GROUP BY docid",
                (json.dumps(docids),),
            )
        )

    def live_documents(self) -> Iterator[StoredDocument]:
        """Yield all live documents in row order, without holding them."""
        return self._stream("removed IS NULL", ())

    def added_between(self, after: int, upto: int) -> Iterator[StoredDocument]:
        """Yield documents that an index at change `after` lacks at change `upto`."""
        return self._stream(
            "added > ? AND added <= ? AND (removed IS NULL OR removed > ?)", (after, upto, upto)
        )

    def removed_between(self, after: int, upto: int) -> Iterator[StoredDocument]:
        """Yield documents that an index at change `after` holds and must drop by change `upto`."""
        return self._stream("removed > ? AND removed <= ? AND added <= ?", (after, upto, after))

    def count_between(self, after: int, upto: int) -> int:
        """Count what `added_between` would yield."""
        return int(
            self._db.one(
                "SELECT count(*) FROM documents WHERE added > ? AND added <= ?"
                " AND (removed IS NULL OR removed > ?)",
                (after, upto, upto),
            )
        )

    def passages(self, document: Document, row: int) -> tuple[Passage, ...]:
        """List the passages of a stored document, in order."""
        found = self._db.all(
            'SELECT name, instance, start, "end" FROM passages JOIN fields ON fields.id = field'
            " WHERE document = ? ORDER BY passages.row",
            (row,),
        )
        return tuple(
            Passage(
                document.docid,
                field,
                Span(start, end),
                document.fields[field][instance][start:end],
                instance,
            )
            for field, instance, start, end in found
        )

    def identifiers(self, docid: str) -> tuple[str, ...]:
        """List the identifiers of a live document, in order."""
        live = self._live(docid)
        found = self._db.all(
            "SELECT text FROM identifiers WHERE document = ? ORDER BY row",
            (live[0] if live else None,),
        )
        return tuple(text for (text,) in found)

    def allowed_rows(self, condition: Condition) -> set[int]:
        """Find the rows of live documents whose metadata meet a condition."""
        return {row for (row,) in self._db.all(*to_sql(condition))}

    def find_damage(self, *, cut: CutDocument) -> Iterator[str]:
        """Check the database's structure, every document's hash, and what follows from them."""
        return find_damage(self._db.connection, self.path, cut=cut)

    # Inner workings --------------------------------------------------------------------------

    def _put(self, document: Document, cut: CutDocument, field_ids: dict[str, int]) -> str:
        problem = find_problem(document)
        if problem:
            raise CorpusError(f"document {document.docid!r} {problem}")
        content = write_content(document)
        digest = hash_content(document.docid, content)
        live = self._live(document.docid)
        if live is not None and live[1] == digest:
            return "unchanged"
        number = self._log("add" if live is None else "update", document.docid, digest)
        if live is not None:
            self._retire(live[0], number)
        row = self._db.run(
            "INSERT INTO documents (docid, hash, content, added) VALUES (?, ?, ?, ?)",
            (document.docid, digest, content, number),
        ).lastrowid
        assert row is not None
        for name in document.fields:
            if name not in field_ids:
                field_ids[name] = self._new_field(name)
        self._db.run_many(
            "INSERT INTO filter_values (key, kind, value, row) VALUES (?, ?, ?, ?)",
            ((key, kind, value, row) for key, kind, value in filter_entries(document)),
        )
        self._put_passages(row, cut(document), field_ids)
        return "added" if live is None else "updated"

    def _put_passages(
        self, row: int, passages: Iterable[Passage], field_ids: Mapping[str, int]
    ) -> None:
        self._db.run_many(
            'INSERT INTO passages (document, field, instance, start, "end") VALUES (?, ?, ?, ?, ?)',
            (
                (row, field_ids[each.field], each.instance, each.span.start, each.span.end)
                for each in passages
            ),
        )

    def _field_ids(self) -> dict[str, int]:
        return dict(self._db.all("SELECT name, id FROM fields"))

    def _new_field(self, name: str) -> int:
        identity = self._db.run("INSERT INTO fields (name) VALUES (?)", (name,)).lastrowid
        assert identity is not None
        return identity

    def _live(self, docid: str) -> tuple[int, bytes] | None:
        for row, digest in self._db.all(
            "SELECT row, hash FROM documents WHERE docid = ? AND removed IS NULL", (docid,)
        ):
            return row, digest
        return None

    def _log(self, kind: str, docid: str, digest: bytes) -> int:
        last = self._db.all("SELECT digest FROM changes ORDER BY number DESC LIMIT 1")
        chained = chain_digest(last[0][0] if last else b"", kind=kind, docid=docid, digest=digest)
        cursor = self._db.run(
            "INSERT INTO changes (kind, docid, hash, digest) VALUES (?, ?, ?, ?)",
            (kind, docid, digest, chained),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _retire(self, row: int, number: int) -> None:
        self._db.run("UPDATE documents SET removed = ? WHERE row = ?", (number, row))

    def _stream(self, where: str, parameters: tuple[object, ...]) -> Iterator[StoredDocument]:
        query = f"SELECT row, docid, content FROM documents WHERE {where} ORDER BY row"
        for row, docid, content in self._db.stream(query, parameters):
            yield StoredDocument(row, self._read(row, docid, content))

    def _read(self, row: int, docid: str, content: str) -> Document:
        try:
            return read_content(docid, content)
        except ValueError as error:
            raise Damaged(
                f"{self.path}: document {docid!r} (row {row}) cannot be read ({error});"
                f' run "quoth verify {self.path.parent}"'
            ) from error
