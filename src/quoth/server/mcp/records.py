"""A stretch of a document, as the tool `fetch_passage` returns it.

What tools return has no slots: the SDK takes a slot for a default value.
"""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import CollectionError
from quoth.records import Document

_BODY = "text"


@dataclass(frozen=True)
class Fetched:
    """A stretch of a document; `length` is that of the whole field, `instances` those of each."""

    docid: str
    field: str
    instance: int
    start: int
    end: int
    length: int
    text: str
    instances: dict[str, int]


def fetched(document: Document, *, field: str, instance: int, start: int, length: int) -> Fetched:
    """Cut a stretch out of a document; without a field, out of its text or what comes first."""
    name = field or (_BODY if _BODY in document.fields else next(iter(document.fields)))
    texts = document.fields.get(name, ())
    if not texts:
        raise CollectionError(
            f"document {document.docid!r} has no field {name!r}, only {', '.join(document.fields)}"
        )
    if instance >= len(texts):
        raise CollectionError(
            f"field {name!r} of document {document.docid!r} has {len(texts)} instances, counted"
            f" from 0; there is no {instance}"
        )
    text = texts[instance]
    begin, end = min(start, len(text)), min(start + length, len(text))
    counts = {each: len(found) for each, found in document.fields.items()}
    return Fetched(document.docid, name, instance, begin, end, len(text), text[begin:end], counts)
