"""What of a document gets a vector: each passage of its body with the other fields, or the whole.

Search and learning go by the same units, so that a model is trained on what it will encode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from quoth.models.glow.config import GlowConfig
from quoth.records import Document, Passage


class UnitSource(Protocol):
    """Where the text of units is read; `Store` is one."""

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Map rows to documents."""
        ...

    def passages(self, document: Document, row: int) -> tuple[Passage, ...]:
        """List the passages of a document, in order."""
        ...


def cut_units(
    document: Document, passages: Sequence[Passage], config: GlowConfig
) -> Iterator[Mapping[str, Sequence[str]]]:
    """Yield what gets a vector, as fields; the body stands in the last configured field."""
    slot, body = config.fields[-1], body_field(document, config.fields)
    whole = {**document.fields, slot: document.fields[body]} if body else document.fields
    parts = body_passages(document, passages, config)
    if not parts:
        yield whole
    for passage in parts:
        yield {**whole, slot: (passage.text,)}


def body_passages(
    document: Document, passages: Sequence[Passage], config: GlowConfig
) -> list[Passage]:
    """List the passages that have a vector of their own; none if the document has one."""
    if config.unit == "document":
        return []
    body = body_field(document, config.fields)
    return [passage for passage in passages if passage.field == body]


def body_field(document: Document, fields: Sequence[str]) -> str:
    """Name the field that is cut into units: the last configured one.

    Where a document lacks it, its longest field that is not configured stands in, so that a body
    under an unusual name is encoded all the same; where there is none, the document is one unit.

    >>> fields = {"title": ("Owls",), "abstract": ("They hunt at night.",), "lang": ("en",)}
    >>> body_field(Document("d", fields), ["title", "text"])
    'abstract'
    """
    if fields[-1] in document.fields:
        return fields[-1]
    others = {
        name: sum(map(len, texts)) for name, texts in document.fields.items() if name not in fields
    }
    return max(others, key=lambda name: others[name], default="")
