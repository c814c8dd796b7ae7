"""A document as the store keeps it: one line of JSON and its hash.

What is hashed is what is stored, byte for byte, so a flipped bit is found and an unchanged document
known.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable

from quoth.compiled import is_compiled
from quoth.records import Document, Scalar

RESERVED_FIELDS = ("", "*")
"""Names that no field may have: `*` stands for all fields together."""

MAX_DOCID_LENGTH = 4_096

_quote = json.encoder.encode_basestring  # what the encoder uses, which takes longer to be set up
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_MAX_INTEGER_BITS = 13_000  # just below the 4,300 digits that Python writes and reads


def write_content(document: Document) -> str:
    """Write fields and metadata as JSON, in their own order.

    >>> write_content(Document("d", {"title": ("Œuvre",)}, {"year": 1913}))
    '{"fields":{"title":["Œuvre"]},"metadata":{"year":1913}}'
    """
    if not is_compiled():
        return write_slowly(document)
    from quoth.native import write_content as write

    return write(dict(document.fields), _write_metadata(document))


def write_usual(document: Document) -> str | None:
    """Write a document that surely can be stored, as most without metadata; None for others.

    >>> write_usual(Document("d", {"text": ("An owl",)}))
    '{"fields":{"text":["An owl"]},"metadata":{}}'
    """
    if document.metadata:
        return None
    if not is_compiled():
        return write_slowly(document) if _is_usual(document) else None
    from quoth.native import write_usual as write

    return write(document.docid, document.fields, MAX_DOCID_LENGTH)


def write_slowly(document: Document) -> str:
    """Do the same without compiled code."""
    fields = [
        f"{_quote(name)}:[{','.join(map(_quote, instances))}]"
        for name, instances in document.fields.items()
    ]
    return f'{{"fields":{{{",".join(fields)}}},"metadata":{_write_metadata(document)}}}'


def _write_metadata(document: Document) -> str:
    return _ENCODER.encode(dict(document.metadata)) if document.metadata else "{}"


def read_content(docid: str, content: str) -> Document:
    """Read back what `write_content` wrote.

    >>> read_content("d", '{"fields":{"title":["a","b"]},"metadata":{"tags":["x",1]}}').metadata
    {'tags': ('x', 1)}
    """
    found = json.loads(content)
    return Document(
        docid,
        {name: tuple(instances) for name, instances in found["fields"].items()},
        {key: _as_value(value) for key, value in found["metadata"].items()},
    )


def document_texts(document: Document) -> Iterable[str]:
    """Yield the texts of all fields of a document."""
    return (text for instances in document.fields.values() for text in instances)


def hash_content(docid: str, content: str) -> bytes:
    """Hash a document's key and content."""
    return hashlib.blake2b(f"{docid}\0{content}".encode(), digest_size=16).digest()


def chain_digest(previous: bytes, *, kind: str, docid: str, digest: bytes) -> bytes:
    """Hash one entry of the change log together with all before it.

    Two collections whose logs end in the same digest have the same history.
    """
    entry = previous + digest + f"{kind}\0{docid}".encode()
    return hashlib.blake2b(entry, digest_size=16).digest()


def find_problem(document: Document) -> str:
    """Say why a document cannot be stored, or nothing.

    >>> find_problem(Document("", {"text": ("a",)}))
    'has an empty docid'
    >>> find_problem(Document("d", {"text": ("a",)}))
    ''
    """
    if _is_usual(document):
        return ""
    if problem := _find_wrong_type(document):
        return problem
    checks = (
        (not document.docid, "has an empty docid"),
        (len(document.docid) > MAX_DOCID_LENGTH, f"has a docid over {MAX_DOCID_LENGTH} characters"),
        ("\0" in document.docid, "has a NUL character in its docid"),
        (not any(map(any, document.fields.values())), "has no text"),
        (any(name in RESERVED_FIELDS for name in document.fields), "has a field named '' or '*'"),
        (not _encodable(document), "holds characters that are not valid Unicode"),
        (not all(map(_is_finite, document.metadata.values())), "has metadata that is not finite"),
        (not all(map(_is_writable, document.metadata.values())), "has a number that is too long"),
    )
    return next((message for wrong, message in checks if wrong), "")


def _is_usual(document: Document) -> bool:
    """Whether a document is surely fine, as most without metadata are; found sooner."""
    docid, fields = document.docid, document.fields
    if document.metadata or type(docid) is not str or not _is_usual_docid(docid):
        return False
    has_text = False
    for name, instances in fields.items():
        if type(name) is not str or name in RESERVED_FIELDS or type(instances) is not tuple:
            return False
        if not all(type(text) is str and _is_encodable(text) for text in (name, *instances)):
            return False
        has_text = has_text or any(instances)
    return has_text


def _is_usual_docid(docid: str) -> bool:
    return docid.isascii() and 0 < len(docid) <= MAX_DOCID_LENGTH and "\0" not in docid


def _find_wrong_type(document: Document) -> str:
    """Say what would not read back as it was given, whatever the annotations promise."""
    fields, metadata = document.fields, document.metadata
    if not all(isinstance(text, str) for text in (document.docid, *fields, *metadata)):
        return "has a docid, a field name or a metadata key that is not a text"
    for instances in fields.values():
        if not isinstance(instances, tuple) or not all(isinstance(text, str) for text in instances):
            return "has a field that is not a tuple of texts"
    if not all(isinstance(item, Scalar) for value in metadata.values() for item in _items(value)):
        return "has metadata that are not texts, numbers, booleans or tuples of them"
    return ""


def _encodable(document: Document) -> bool:
    return all(map(_is_encodable, _texts(document)))


def _is_encodable(text: str) -> bool:
    if text.isascii():  # which is known beforehand
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _texts(document: Document) -> Iterable[str]:
    yield document.docid
    for name, instances in document.fields.items():
        yield name
        yield from instances
    for key, value in document.metadata.items():
        yield key
        yield from (item for item in _items(value) if isinstance(item, str))


def _is_finite(value: Scalar | tuple[Scalar, ...]) -> bool:
    return all(math.isfinite(item) for item in _items(value) if isinstance(item, float))


def _is_writable(value: Scalar | tuple[Scalar, ...]) -> bool:
    integers = (item for item in _items(value) if isinstance(item, int))
    return all(item.bit_length() <= _MAX_INTEGER_BITS for item in integers)


def _items(value: Scalar | tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else (value,)


def _as_value(value: object) -> Scalar | tuple[Scalar, ...]:
    return tuple(value) if isinstance(value, list) else value  # type: ignore[return-value]
