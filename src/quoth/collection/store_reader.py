"""Reading a collection: documents, passages, identifiers and the log of changes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quoth.collection.database import Database
from quoth.collection.filter_examples import SAMPLE, FilterExample, choose_examples
from quoth.collection.filter_rows import find_rows
from quoth.collection.filter_syntax import Condition
from quoth.collection.portions import (
    StoredContent,
    StoredPlace,
    StoredPortion,
    cut_portions,
    damaged,
    place_passages,
    read_document,
)
from quoth.records import Document, Passage

_DOCID = "CAST(docid AS TEXT)"  # one flipped bit makes a blob of it
_AMONG = "docid IN (SELECT value FROM json_each(?))"
_ADDED = "added > ? AND added <= ? AND (removed IS NULL OR removed > ?)"
_MAX_READ_CHARACTERS = 16_000_000
_MAX_SIGNED_ROWS = 20_000  # some 10 MB

FEWEST_FORGOTTEN = 1_000
"""With so many rows at hand, and whenever they have doubled, those that are gone are forgotten."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its row, for those who keep an index of rows."""

    row: int
    document: Document


@dataclass(frozen=True, slots=True)
class SignedRow:
    """A document's row, and what tells near-identical ones; None where none was stored."""

    row: int
    signature: bytes | None


class StoreReader:
    """What can be asked of the documents on disk; `Store` adds opening and writing."""

    def __init__(self, database: Database, is_outdated: Callable[[], bool] = lambda: False) -> None:
        """`is_outdated` tells whether the file must be opened anew to see what is in it."""
        self._db = database
        self.is_outdated = is_outdated
        self.path = database.path
        self._read_documents: dict[int, Document] = {}
        self._read_signatures: dict[int, bytes] = {}
        self._read_characters = 0
        self._gone_are_due_at = FEWEST_FORGOTTEN
        self._is_signed = False
        self._is_in_snapshot = False
        self._change: int | None = None
        self._signed_rows: dict[str, SignedRow] = {}
        self._signed_at = -1

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one consistent state until the block ends, whatever others write meanwhile."""
        if self._is_in_snapshot:
            yield
            return
        with self._db.snapshot():
            self._is_in_snapshot = True
            try:
                yield
            finally:
                self._is_in_snapshot, self._change = False, None

    # What the collection is like -------------------------------------------------------------

    @property
    def change(self) -> int:
        """Number of the last acknowledged change, 0 for none."""
        if self._change is not None:
            return self._change
        change = int(self._db.one("SELECT coalesce(max(number), 0) FROM changes"))
        self._change = change if self._is_in_snapshot else None
        return change

    def log_digest(self, change: int) -> str:
        """Name the history up to a change: equal only where all changes so far are equal."""
        for (digest,) in self._db.all(
            "SELECT hex(digest) FROM changes WHERE number = ?", (change,)
        ):
            return str(digest).lower()
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

    def num_passages_of(self, field: str) -> int:
        """Passages of one field of live documents."""
        return int(
            self._db.one(
                "SELECT count(*) FROM passages JOIN documents ON documents.row = document"
                " WHERE removed IS NULL AND field = (SELECT id FROM fields WHERE name = ?)",
                (field,),
            )
        )

    def passage_counts(self) -> Iterator[tuple[int, str, int]]:
        """Yield the row of each live document, each of its fields, and how many passages it has."""
        yield from self._db.all(
            "SELECT documents.row, CAST(name AS TEXT), count(*) FROM documents"
            " JOIN passages ON document = documents.row JOIN fields ON fields.id = field"
            " WHERE removed IS NULL GROUP BY documents.row, field ORDER BY documents.row"
        )

    def fields(self) -> tuple[str, ...]:
        """Names of all fields ever seen, in order of first appearance."""
        return tuple(
            name for (name,) in self._db.all("SELECT CAST(name AS TEXT) FROM fields ORDER BY id")
        )

    def filter_examples(self, *, most: int) -> tuple[FilterExample, ...]:
        """Choose examples of conditions from the metadata of some live documents."""
        return choose_examples(self._db.all(SAMPLE), most=most)

    def setting(self, name: str) -> Any:
        """Read a value kept with the collection, None where it was never set."""
        for (value,) in self._db.all("SELECT value FROM settings WHERE name = ?", (name,)):
            try:
                return json.loads(value)
            except (ValueError, TypeError) as error:
                raise damaged(self.path, f"setting {name!r}", error) from error
        return None

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
        found = f"SELECT row, {_DOCID} FROM documents WHERE row IN (SELECT value FROM json_each(?))"
        return dict(self._db.all(found, (json.dumps(rows),)))

    def all_docids(self) -> tuple[str, ...]:
        """List the docids of all live documents, in row order."""
        found = self._db.all(f"SELECT {_DOCID} FROM documents WHERE removed IS NULL ORDER BY row")
        return tuple(docid for (docid,) in found)

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Map rows to documents, retired rows included as long as they are kept.

        A row's content never changes, so what was read lately need not be read again.
        """
        known = self._read_documents
        unknown = [row for row in rows if row not in known]
        if unknown:
            read = self._fetch(unknown)
            self._remember(read)
            return {**{row: known[row] for row in rows if row in known}, **read}
        return {row: known[row] for row in rows}

    def rows(self, docids: Sequence[str]) -> dict[str, int]:
        """Map docids to their newest rows, retired ones included as long as they are kept."""
        found = f"SELECT docid, row FROM documents WHERE removed IS NULL AND {_AMONG}"
        rows: dict[str, int] = dict(self._db.all(found, (json.dumps(list(docids)),)))
        if len(rows) < len(set(docids)):
            gone = "SELECT docid, max(row) FROM documents WHERE removed IS NOT NULL"
            lost = json.dumps([docid for docid in docids if docid not in rows])
            rows.update(self._db.all(f"{gone} AND {_AMONG} GROUP BY docid", (lost,)))
        return rows

    def signed_rows(self, docids: Sequence[str]) -> dict[str, SignedRow]:
        """Map docids of live documents to their rows and what tells near-identical ones.

        Until the next change, what was looked up lately need not be looked up again.
        """
        change = self.change
        if change != self._signed_at or len(self._signed_rows) > _MAX_SIGNED_ROWS:
            self._signed_rows, self._signed_at = {}, change
        known = self._signed_rows
        unknown = [docid for docid in docids if docid not in known]
        if unknown:
            signature, joined = self._joined_signature()
            found = self._db.all(
                f"SELECT docid, row, {signature} FROM documents{joined}"
                f" WHERE removed IS NULL AND {_AMONG}",
                (json.dumps(unknown),),
            )
            known.update({docid: SignedRow(row, signature) for docid, row, signature in found})
        return {docid: known[docid] for docid in docids if docid in known}

    @property
    def last_row(self) -> int:
        """The highest row that a document ever had, 0 before the first."""
        found = self._db.all("SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
        return int(found[0][0]) if found else 0

    def live_rows(self, *, after: int = 0) -> set[int]:
        """Return the rows of all live documents that were added after a change."""
        found = "SELECT row FROM documents WHERE removed IS NULL AND added > ?"
        return {row for (row,) in self._db.all(found, (after,))}

    def ordered_rows(self) -> Iterator[int]:
        """Yield the rows of all live documents in order, without holding them."""
        found = "SELECT row FROM documents WHERE removed IS NULL ORDER BY row"
        return (row for (row,) in self._db.stream(found))

    def live_among(self, rows: Sequence[int]) -> set[int]:
        """Return those of some rows that belong to live documents."""
        found = (
            "SELECT row FROM documents WHERE removed IS NULL"
            " AND row IN (SELECT value FROM json_each(?))"
        )
        return {row for (row,) in self._db.all(found, (json.dumps(rows),))}

    def live_documents(self) -> Iterator[StoredDocument]:
        """Yield all live documents in row order, without holding them."""
        return self._stream("removed IS NULL", ())

    def added_between(self, after: int, upto: int) -> Iterator[StoredDocument]:
        """Yield documents that an index at change `after` lacks at change `upto`."""
        return self._stream(_ADDED, (after, upto, upto))

    def portions_between(self, after: int, upto: int) -> Iterator[StoredPortion]:
        """Yield what `added_between` would, with passages, portion by portion and unread."""
        added = self._contents(_ADDED, (after, upto, upto))
        for portion in cut_portions(added):
            yield StoredPortion(self.path, portion, self._places([each[0] for each in portion]))

    def removed_between(self, after: int, upto: int) -> Iterator[StoredDocument]:
        """Yield documents that an index at change `after` holds and must drop by change `upto`."""
        return self._stream("removed > ? AND removed <= ? AND added <= ?", (after, upto, after))

    def count_between(self, after: int, upto: int) -> int:
        """Count what `added_between` would yield."""
        return int(
            self._db.one(f"SELECT count(*) FROM documents WHERE {_ADDED}", (after, upto, upto))
        )

    def count_changes(self, after: int) -> dict[str, int]:
        """Count the changes after one, by kind: add, update, remove, identify."""
        found = "SELECT kind, count(*) FROM changes WHERE number > ? GROUP BY kind"
        return dict(self._db.all(found, (after,)))

    def passages(self, document: Document, row: int) -> tuple[Passage, ...]:
        """List the passages of a stored document, in order."""
        return self.passages_by_row({row: document})[row]

    def passages_by_row(self, documents: Mapping[int, Document]) -> dict[int, tuple[Passage, ...]]:
        """List the passages of stored documents, given by row, in one query; each in order."""
        passages = place_passages(self.path, documents, self._places(list(documents)))
        return {row: tuple(own) for row, own in passages.items()}

    def signatures(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Map rows to the signatures of their texts; those stored without one are left out."""
        self.documents(rows)
        known = self._read_signatures
        return {row: known[row] for row in rows if row in known}

    def identifiers(self, docid: str) -> tuple[str, ...]:
        """List the identifiers of a live document, in order."""
        live = self._live(docid)
        found = self._db.all(
            "SELECT text FROM identifiers WHERE document = ? ORDER BY row",
            (live[0] if live else None,),
        )
        return tuple(text for (text,) in found)

    def identifiers_by_origin(self, row: int) -> dict[str, list[str]]:
        """List the identifiers of a document's row by where they come from, each in order."""
        found: dict[str, list[str]] = {}
        for origin, text in self._db.all(
            "SELECT origin, text FROM identifiers WHERE document = ? ORDER BY row", (row,)
        ):
            found.setdefault(origin, []).append(text)
        return found

    def settings(self) -> dict[str, Any]:
        """Read all values kept with the collection, by name."""
        names = self._db.all("SELECT name FROM settings ORDER BY name")
        return {name: self.setting(name) for (name,) in names}

    def identified_between(self, after: int, upto: int) -> tuple[str, ...]:
        """List the docids whose identifiers were replaced after one change and up to another."""
        found = self._db.all(
            f"SELECT DISTINCT {_DOCID} FROM changes"
            " WHERE kind = 'identify' AND number > ? AND number <= ?",
            (after, upto),
        )
        return tuple(docid for (docid,) in found)

    def allowed_rows(self, condition: Condition) -> set[int]:
        """Find the rows of live documents whose metadata meet a condition."""
        return find_rows(condition, self._db)

    # Inner workings --------------------------------------------------------------------------

    def _fetch(self, rows: Sequence[int]) -> dict[int, Document]:
        signature, joined = self._joined_signature()
        found = self._db.all(
            f"SELECT row, {_DOCID}, content, {signature} FROM documents{joined}"
            " WHERE row IN (SELECT value FROM json_each(?))",
            (json.dumps(rows),),
        )
        self._read_characters += sum(len(each[2]) for each in found)
        self._read_signatures.update({each[0]: each[3] for each in found if each[3] is not None})
        return {row: self._read(row, docid, content) for row, docid, content, _ in found}

    def _joined_signature(self) -> tuple[str, str]:
        """Write what selects signatures, and joins them; none was added where there is no table."""
        if not self._is_signed:
            there = "SELECT 1 FROM sqlite_master WHERE name = 'signatures'"
            self._is_signed = bool(self._db.all(there))
        if not self._is_signed:
            return "NULL", ""
        return "signature", " LEFT JOIN signatures USING (row)"

    def _remember(self, read: Mapping[int, Document]) -> None:
        """Keep documents at hand, and forget all once they take too much memory."""
        if self._read_characters > _MAX_READ_CHARACTERS:
            self._read_documents, self._read_characters = {}, 0
            kept = {row: each for row, each in self._read_signatures.items() if row in read}
            self._read_signatures = kept
        self._read_documents.update(read)
        if len(self._read_documents) >= self._gone_are_due_at:
            self._forget_gone()

    def _forget_gone(self) -> None:
        """Forget documents that were replaced or removed since they were read."""
        known = self._read_documents
        live = self.live_among(list(known))
        self._read_characters = round(self._read_characters * len(live) / len(known))
        self._read_documents = {row: each for row, each in known.items() if row in live}
        signed = self._read_signatures.items()
        self._read_signatures = {row: each for row, each in signed if row in live}
        self._gone_are_due_at = max(FEWEST_FORGOTTEN, 2 * len(live))

    def _live(self, docid: str) -> tuple[int, bytes] | None:
        for row, digest in self._db.all(
            "SELECT row, hash FROM documents WHERE docid = ? AND removed IS NULL", (docid,)
        ):
            return row, digest
        return None

    def _stream(self, where: str, parameters: tuple[object, ...]) -> Iterator[StoredDocument]:
        for row, docid, content in self._contents(where, parameters):
            yield StoredDocument(row, self._read(row, docid, content))

    def _contents(self, where: str, parameters: tuple[object, ...]) -> Iterator[StoredContent]:
        query = f"SELECT row, {_DOCID}, content FROM documents WHERE {where} ORDER BY row"
        return self._db.stream(query, parameters)

    def _places(self, rows: Sequence[int]) -> tuple[StoredPlace, ...]:
        found = self._db.all(
            'SELECT document, name, instance, start, "end" FROM passages'
            " JOIN fields ON fields.id = field"
            # The sign keeps SQLite from reading the whole table in its own order.
            " WHERE document IN (SELECT value FROM json_each(?)) ORDER BY +passages.row",
            (json.dumps(rows),),
        )
        return tuple(found)

    def _read(self, row: int, docid: str, content: str) -> Document:
        return read_document(self.path, row, docid, content)
