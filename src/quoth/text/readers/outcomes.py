"""What every reader hands on: located documents and problems, in the order of the input."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from quoth.records import Document, Located, Place, Problem, Scalar

Outcome = Located | Problem
"""One piece of input: either read, or skipped with the reason."""

Metadata = Mapping[str, Scalar | tuple[Scalar, ...]]
"""What a document can be filtered on."""

PAGE_BREAK = "\n\n\f"
"""Stands between the pages or slides of a text, so that a place's page can be counted."""

PARSER_FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What third-party parsers raise on bytes that are not what they claim to be, found by fuzzing.

Each caller adds the base errors of its own library. `RuntimeError` covers deep recursion.
"""


@dataclass(frozen=True, slots=True)
class Whole:
    """A file read whole: its name in documents and problems, its bytes, and how to decode them."""

    path: str
    data: bytes
    encoding: str
    max_bytes: int


def too_large(found: str, most: int) -> str:
    """Say that a file is larger than is read, and how to read it all the same.

    >>> too_large("11 bytes", 10)
    'too large: 11 bytes, but readers.max_file_bytes is 10; raise it to read this file'
    """
    limit = f"readers.max_file_bytes is {most:,}"
    return f"too large: {found}, but {limit}; raise it to read this file"


def file_document(
    whole: Whole, *, format: str, text: str, title: str = "", metadata: Metadata | None = None
) -> Located:
    """Make the one document that a file holds; blank fields are left out.

    >>> located = file_document(Whole("a.md", b"", "utf-8", 1), format="md", text="Hello", title="")
    >>> located.document.docid, dict(located.document.fields), dict(located.document.metadata)
    ('a.md', {'text': ('Hello',)}, {'path': 'a.md', 'format': 'md'})
    """
    texts = {"title": title.strip(), "text": text}
    fields = {name: (value,) for name, value in texts.items() if value.strip()}
    about = {**(metadata or {}), "path": whole.path, "format": format}
    return Located(Document(whole.path, fields, about), Place(whole.path))


def find_flaw(document: Document) -> str:
    """Say why a document cannot be kept, or nothing where it can.

    >>> find_flaw(Document("d", {"text": ("  ",)}))
    'no text: every field is blank'
    >>> find_flaw(Document("d", {"text": ("fine",)}))
    ''
    """
    if not all(map(_is_storable, _strings(document))):
        return "contains a lone surrogate (half a character), which cannot be stored; remove it"
    if not any(text.strip() for texts in document.fields.values() for text in texts):
        return "no text: every field is blank"
    return ""


def describe(error: BaseException) -> str:
    """Name an error in one line, by its message or else by its kind.

    >>> describe(ValueError("bad\\nnumber")), describe(EOFError())
    ('bad number', 'EOFError')
    """
    return " ".join(str(error).split())[:200] or type(error).__name__


def _strings(document: Document) -> list[str]:
    """List every string of a document that will be stored."""
    strings = [document.docid, *document.fields, *document.metadata]
    strings += [text for texts in document.fields.values() for text in texts]
    for value in document.metadata.values():
        strings += [part for part in _as_tuple(value) if isinstance(part, str)]
    return strings


def _as_tuple(value: Scalar | tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else (value,)


def _is_storable(text: str) -> bool:
    """Tell whether a text can be written as UTF-8.

    >>> _is_storable("naïve"), _is_storable("\\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
