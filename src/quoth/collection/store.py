"""The only truth on disk: documents, passages, identifiers and a log of changes, in SQLite.

Every version of a document has a row of its own, never reused. An update adds a row and retires the
old one under the same change number; retired rows keep their content until every derived index has
caught up (`forget`), so an index can always subtract what it once added. A write is acknowledged
when SQLite has committed it with synchronous = FULL. One writer at a time (see `lock.py`), any
number of readers, each on one consistent state inside `snapshot`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from quoth.collection import schema
from quoth.collection.batch import (
    Batch,
    field_ids,
    find_live,
    last_digest,
    passage_entries,
    put_passages,
)
from quoth.collection.carrying import (
    Carried,
    CarriedDocument,
    complete_carried,
    stream_carried,
)
from quoth.collection.content import chain_digest, hash_content
from quoth.collection.damage import find_damage
from quoth.collection.database import SQLITE_ERRORS, Database, explain_failure
from quoth.collection.preparing import CutDocument, Prepared
from quoth.collection.store_reader import StoreReader
from quoth.records import Document

FILE_NAME = "collection.db"


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch did: documents added, updated, and left alone because nothing changed."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0


class Store(StoreReader):
    """Documents on disk; see the module's docstring for its promises."""

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Open the collection in this folder for writing, making an empty one if there is none."""
        folder.mkdir(parents=True, exist_ok=True)
        schema.require_not_lost(folder / FILE_NAME)
        return cls._connect(folder / FILE_NAME, write=True)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open an existing collection for reading."""
        schema.require_collection(folder, FILE_NAME)
        return cls._connect(folder / FILE_NAME, write=False)

    @classmethod
    def _connect(cls, path: Path, *, write: bool) -> Self:
        try:
            connection, is_outdated = schema.connect(path, write=write)
            return cls(Database(connection, path), is_outdated)
        except SQLITE_ERRORS as error:
            raise explain_failure(path, error) from error

    def set_setting(self, name: str, value: object) -> None:
        """Keep a JSON value with the collection."""
        self._db.run(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            (name, json.dumps(value, sort_keys=True)),
        )

    # Writing ---------------------------------------------------------------------------------

    def add(
        self,
        documents: Sequence[Document],
        *,
        cut: CutDocument,
        rows: Sequence[int] | None = None,
        prepared: Prepared | None = None,
    ) -> Written:
        """Add or update a batch in one transaction; it is durable when this returns.

        New versions take the given `rows`, which nothing may have had before; without them, the
        next ones. What is among the `prepared` need not be worked out here.
        """
        counts = {"added": 0, "updated": 0, "unchanged": 0}
        places = [None] * len(documents) if rows is None else rows
        with self._db.transaction():
            docids = (document.docid for document in documents)
            batch = Batch(self._db, docids, cut=cut, prepared=prepared)
            for document, row in zip(documents, places, strict=True):
                counts[batch.put(document, row=row)] += 1
            batch.write()
        return Written(**counts)

    def carried_documents(self) -> Iterator[CarriedDocument]:
        """Yield all live documents as they are stored, in row order, to be carried elsewhere."""
        return stream_carried(self._db, *self._joined_signature())

    def complete_carried(
        self, documents: Sequence[CarriedDocument], rows: Sequence[int]
    ) -> list[Carried]:
        """Add to documents of this store what belongs to them, and the rows they are to have."""
        places = self._places([each.row for each in documents])
        return complete_carried(self._db, documents, places, rows)

    def carry(self, documents: Sequence[Carried]) -> None:
        """Take in a batch from another store in one transaction, under rows that are free.

        All fields that they have must be known (`put_fields`).
        """
        with self._db.transaction():
            docids = [each.docid for each in documents]
            batch = Batch(self._db, docids)
            for each in documents:
                batch.put_prepared(each.docid, each.prepared, row=each.row)
            batch.write()
        by_origin: dict[str, dict[str, Sequence[str]]] = {}
        for each in documents:
            for origin, texts in each.identifiers.items():
                by_origin.setdefault(origin, {})[each.docid] = texts
        for origin, texts_by_docid in by_origin.items():
            self.put_identifiers(texts_by_docid, origin=origin)

    def digests(self, docids: Sequence[str]) -> dict[str, bytes]:
        """Map docids to the digests of what is stored of them; others are left out."""
        return {docid: digest for docid, (_row, digest) in find_live(self._db, docids).items()}

    def put_fields(self, names: Sequence[str]) -> None:
        """Know these fields, in this order; all that documents have must be among them."""
        known = field_ids(self._db)
        if tuple(names) == self.fields():
            return
        places = {known[name]: at for at, name in enumerate(names, start=1) if name in known}
        with self._db.transaction():
            self._db.run(
                "UPDATE passages SET field ="
                " (SELECT value FROM json_each(?) WHERE CAST(key AS INTEGER) = field)",
                (json.dumps(places),),
            )
            self._db.run("DELETE FROM fields")
            self._db.run_many("INSERT INTO fields (id, name) VALUES (?, ?)", enumerate(names, 1))

    def undo_unfinished(self) -> None:
        """Drop whatever an interrupt left uncommitted."""
        self._db.undo_unfinished()

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

    def recut(self, *, cut: CutDocument, config: object) -> None:
        """Cut the passages of all documents anew, and keep the settings they are cut with."""
        with self._db.transaction():
            self.set_setting("config", config)
            self._db.run("DELETE FROM passages")
            numbers = field_ids(self._db)
            for stored in self.live_documents():
                put_passages(self._db, passage_entries(stored.row, cut(stored.document), numbers))

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

    def find_damage(self, *, cut: CutDocument) -> Iterator[str]:
        """Check the database's structure, every document's hash, and what follows from them."""
        return find_damage(self._db.connection, self.path, cut=cut)

    # Inner workings --------------------------------------------------------------------------

    def _log(self, kind: str, docid: str, digest: bytes) -> int:
        chained = chain_digest(last_digest(self._db), kind=kind, docid=docid, digest=digest)
        cursor = self._db.run(
            "INSERT INTO changes (kind, docid, hash, digest) VALUES (?, ?, ?, ?)",
            (kind, docid, digest, chained),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _retire(self, row: int, number: int) -> None:
        self._db.run("UPDATE documents SET removed = ? WHERE row = ?", (number, row))
