"""A document as one JSON object, and back, without loss.

    {"_id": "owl", "title": "Barn owl", "text": ["First part.", "Second part."], "metadata": {…}}

The docid is `_id`, each field a string, or a list where it has several instances, and `metadata`
holds what can be filtered on. `quoth add` reads the same. Where a field's name is one of the keys
above, or BEIR's two fields cannot hold all, the object has `fields`: all fields, each a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quoth.errors import CorpusError
from quoth.records import Document, Scalar

IDS = ("_id", "id", "docid")
METADATA, FIELDS = "metadata", "fields"
_TAKEN = frozenset((*IDS, METADATA, FIELDS))


def to_record(document: Document) -> dict[str, Any]:
    """Write a document as an object.

    >>> to_record(Document("owl", {"title": ("Owls",), "text": ("a", "b")}, {"year": 2020}))
    {'_id': 'owl', 'title': 'Owls', 'text': ['a', 'b'], 'metadata': {'year': 2020}}
    >>> to_record(Document("owl", {"id": ("Owls",)}))
    {'_id': 'owl', 'fields': {'id': ['Owls']}}
    """
    record: dict[str, Any] = {"_id": document.docid}
    if _TAKEN.isdisjoint(document.fields) and all(map(any, document.fields.values())):
        for name, texts in document.fields.items():
            record[name] = texts[0] if len(texts) == 1 else list(texts)
    else:
        record[FIELDS] = _lists(document)
    if document.metadata:
        record[METADATA] = dict(document.metadata)
    return record


def to_beir(document: Document) -> dict[str, Any]:
    """Write a document as BEIR has it: a title, and one text of all other fields.

    >>> to_beir(Document("owl", {"name": ("Owls",), "text": ("a", "b")}))["text"]
    'a\\n\\nb'
    """
    own = document.title_field
    rest = [text for name, texts in document.fields.items() if name != own for text in texts]
    record: dict[str, Any] = {"_id": document.docid, "title": document.title}
    record["text"] = "\n\n".join(rest)
    if _from_plain(record) != document.fields:
        record[FIELDS] = _lists(document)
    record[METADATA] = dict(document.metadata)
    return record


def from_record(record: object) -> Document:
    """Read a document from an object; numbers beside the fields are metadata, nulls are nothing.

    >>> from_record({"id": 7, "text": "Owls hunt.", "year": 2020})
    Document(docid='7', fields={'text': ('Owls hunt.',)}, metadata={'year': 2020})
    """
    if not isinstance(record, dict):
        raise CorpusError("expected an object with _id and fields")
    key = next((each for each in IDS if record.get(each) is not None), None)
    if key is None:
        raise CorpusError(f"no docid: expected one of {', '.join(IDS)}")
    docid = record[key]
    if isinstance(docid, bool) or not isinstance(docid, str | int):
        raise CorpusError(f"{key} must be a string or a whole number")
    rest = {name: value for name, value in record.items() if name != key and value is not None}
    metadata = {name: _value(name, each) for name, each in _mapping(rest, METADATA).items()}
    fields = {name: _texts(name, each) for name, each in _mapping(rest, FIELDS).items()}
    if FIELDS not in rest:
        fields = {name: _texts(name, each) for name, each in rest.items() if not _is_number(each)}
        metadata |= {name: each for name, each in rest.items() if _is_number(each)}
        fields = {name: each for name, each in fields.items() if any(each)}
    return Document(str(docid), fields, metadata)


def _lists(document: Document) -> dict[str, list[str]]:
    return {name: list(texts) for name, texts in document.fields.items()}


def _from_plain(record: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: (record[name],) for name in ("title", "text") if record[name]}


def _mapping(rest: dict[str, Any], name: str) -> Mapping[str, Any]:
    """Take a nested object; `metadata` leaves the record, `fields` stays to be seen."""
    found = rest.get(name, {}) if name == FIELDS else rest.pop(name, {})
    if not isinstance(found, Mapping):
        raise CorpusError(f"{name} must be an object")
    return found


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise CorpusError(f"field {name!r} must be a string or a list of strings")


def _value(name: str, value: object) -> Scalar | tuple[Scalar, ...]:
    if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
        return tuple(value)
    if isinstance(value, str | int | float):
        return value
    raise CorpusError(f"metadata {name!r} must be a string, a number, a boolean or a list")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
