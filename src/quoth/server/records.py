"""Documents and explanations as plain values, in the shapes of `schemas.py`."""

from __future__ import annotations

from typing import Any

from quoth.answer.cite import Piece
from quoth.records import Attention, Document, Part
from quoth.server.schemas import DocumentBody, ExplanationBody
from quoth.wire.writing import attention_body, part_body


def explanation_body(docid: str, part: Part, attention: Attention | None) -> ExplanationBody:
    """Write the explanation of one document."""
    looked = None if attention is None else attention_body(attention)
    return ExplanationBody(docid=docid, part=part_body(part), attention=looked)


def document_record(document: Document) -> dict[str, Any]:
    """Return a document."""
    fields = {name: list(texts) for name, texts in document.fields.items()}
    metadata = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in document.metadata.items()
    }
    return {"docid": document.docid, "fields": fields, "metadata": metadata}


def document_of(body: DocumentBody) -> Document:
    """Take a document from a request."""
    return Document(
        body.docid,
        {
            name: (texts,) if isinstance(texts, str) else tuple(texts)
            for name, texts in body.fields.items()
        },
        {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in body.metadata.items()
        },
    )


def token_record(piece: Piece) -> dict[str, Any]:
    """Return a piece of an answer, with the number of a passage it may come from, from 0."""
    return {"text": piece.text, "passage": piece.sources[0].passage if piece.sources else None}
