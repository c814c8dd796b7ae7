"""Stored documents on their way to an index, read from the database but not yet taken apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from quoth.collection.content import read_content
from quoth.compiled import is_compiled
from quoth.errors import Damaged
from quoth.records import Document, Passage, Span

MOST_DOCUMENTS = 500
MOST_CHARACTERS = 1_000_000

StoredContent = tuple[int, str, str]
"""Row, docid and content of a document."""

StoredPlace = tuple[int, str, int, int, int]
"""A passage: row of its document, field, instance, start and end."""


StoredFields = tuple[list[int], list[dict[str, list[str]]], list[list[StoredPlace]]]
"""Rows, the fields of each document, and its passages."""


class PlacedText(NamedTuple):
    """A passage as an index needs it; unlike `Passage`, it costs next to nothing to make."""

    field: str
    instance: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class StoredPortion:
    """Some documents and where their passages stand, as the database has them."""

    path: Path
    documents: tuple[StoredContent, ...]
    places: tuple[StoredPlace, ...]

    def read(self) -> Iterator[tuple[int, Document, list[PlacedText]]]:
        """Yield row, document and passages, in order; raises where one cannot be read."""
        documents = {row: read_document(self.path, row, *rest) for row, *rest in self.documents}
        texts = place_texts(self.path, documents, self.places)
        for row, document in documents.items():
            yield row, document, texts[row]

    def read_fields(self) -> StoredFields | None:
        """Read fields alone, and group passages; None where `read` has to say what is damaged."""
        places: dict[int, list[StoredPlace]] = {row: [] for row, *_rest in self.documents}
        try:
            fields = [_read_fields(content) for _row, _docid, content in self.documents]
            for place in self.places:
                places[place[0]].append(place)
        except (ValueError, LookupError, TypeError, AttributeError):
            return None
        return list(places), fields, list(places.values())


def cut_portions(contents: Iterable[StoredContent]) -> Iterator[tuple[StoredContent, ...]]:
    """Cut a stream of documents into portions that take little memory.

    >>> [len(portion) for portion in cut_portions([(1, "a", "x"), (2, "b", "x" * 2_000_000)] * 2)]
    [2, 2]
    """
    portion: list[StoredContent] = []
    length = 0
    for each in contents:
        portion.append(each)
        length += len(each[2]) if isinstance(each[2], str) else 0  # it may be damaged
        if len(portion) >= MOST_DOCUMENTS or length >= MOST_CHARACTERS:
            yield tuple(portion)
            portion, length = [], 0
    if portion:
        yield tuple(portion)


def read_document(path: Path, row: int, docid: str, content: str) -> Document:
    """Read a document from what is stored of it."""
    try:
        return read_content(docid, content)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged(path, f"document {docid!r} (row {row})", error) from error


def _read_fields(content: str) -> dict[str, list[str]]:
    fields = _read_usual_fields(content) if is_compiled() else None
    if fields is None:
        found = json.loads(content)
        fields = found["fields"]
        found["metadata"].items()
    return fields


def _read_usual_fields(content: str) -> dict[str, list[str]] | None:
    """Read fields in compiled code; None where there are metadata, or anything is unusual."""
    from quoth.native import read_fields

    return read_fields(content)


def place_passages(
    path: Path, documents: Mapping[int, Document], places: Iterable[StoredPlace]
) -> dict[int, list[Passage]]:
    """Make the passages of documents from where they stand, each document's in order."""
    return {
        row: [
            Passage(documents[row].docid, field, Span(start, end), text, instance)
            for field, instance, start, end, text in own
        ]
        for row, own in place_texts(path, documents, places).items()
    }


def place_texts(
    path: Path, documents: Mapping[int, Document], places: Iterable[StoredPlace]
) -> dict[int, list[PlacedText]]:
    """Find the texts of passages from where they stand, each document's in order."""
    texts: dict[int, list[PlacedText]] = {row: [] for row in documents}
    for row, name, instance, start, end in places:
        fields = documents[row].fields
        try:
            made = PlacedText(name, instance, start, end, fields[name][instance][start:end])
        except (LookupError, TypeError) as error:
            what = f"the passages of document {documents[row].docid!r}"
            raise damaged(path, what, error) from error
        texts[row].append(made)
    return texts


def damaged(path: Path, what: str, error: Exception) -> Damaged:
    """Say that something in a database cannot be read."""
    return Damaged(f'{path}: {what} cannot be read ({error}); run "quoth verify {path.parent}"')
