"""Documents on their way from one store to another, with all that is stored of them, as it is.

Nothing is derived again, and hashes come along: what was altered in the one store is found to be
altered in the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from quoth.collection.content import document_texts, read_content
from quoth.collection.database import Database
from quoth.collection.portions import StoredPlace
from quoth.collection.preparing import Derived, PreparedDocument
from quoth.text.signatures import make_signature

_AMONG = "IN (SELECT value FROM json_each(?))"


class CarriedDocument(NamedTuple):
    """A live document as it is stored; the signature is None where none was stored."""

    row: int
    docid: str
    digest: bytes
    content: str
    signature: bytes | None


class Carried(NamedTuple):
    """A document with all that belongs to it, and the row that it is to have."""

    row: int
    docid: str
    prepared: PreparedDocument
    identifiers: Mapping[str, Sequence[str]]
    """By where they come from."""


def stream_carried(database: Database, signature: str, joined: str) -> Iterator[CarriedDocument]:
    """Yield all live documents in row order, without holding them.

    `signature` selects what tells near-identical ones, `joined` names the table that has it.
    """
    found = database.stream(
        f"SELECT row, CAST(docid AS TEXT), hash, content, {signature} FROM documents{joined}"
        " WHERE removed IS NULL ORDER BY row"
    )
    return map(CarriedDocument._make, found)


def complete_carried(
    database: Database,
    documents: Sequence[CarriedDocument],
    passages: Iterable[StoredPlace],
    rows: Sequence[int],
) -> list[Carried]:
    """Add to documents of one store what belongs to them, and the rows that they are to have."""
    asked = (json.dumps([each.row for each in documents]),)
    places: dict[int, list[tuple[str, int, int, int]]] = {}
    for row, field, instance, start, end in passages:
        places.setdefault(row, []).append((field, instance, start, end))
    filters: dict[int, list[tuple[str, int, str | int | float | bool]]] = {}
    for row, *entry in database.all(
        f"SELECT row, key, kind, value FROM filter_values WHERE row {_AMONG}", asked
    ):
        filters.setdefault(row, []).append(tuple(entry))
    identifiers: dict[int, dict[str, list[str]]] = {}
    for row, origin, text in database.all(
        f"SELECT document, origin, text FROM identifiers WHERE document {_AMONG} ORDER BY +row",
        asked,
    ):
        identifiers.setdefault(row, {}).setdefault(origin, []).append(text)
    return [
        Carried(
            row,
            each.docid,
            PreparedDocument(
                each.content,
                each.digest,
                Derived(
                    tuple(filters.get(each.row, ())),
                    tuple(places.get(each.row, ())),
                    _sign(each) if each.signature is None else each.signature,
                ),
            ),
            identifiers.get(each.row, {}),
        )
        for each, row in zip(documents, rows, strict=True)
    ]


def _sign(document: CarriedDocument) -> bytes:
    return make_signature(document_texts(read_content(document.docid, document.content)))
