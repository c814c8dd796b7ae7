"""From bytes to text: byte order marks, strict decoding, and the line of the first bad byte."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from quoth.records import Place, Problem
from quoth.text.readers.outcomes import Whole, describe

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARK_BYTES = 4
"""How many bytes it takes to recognise any byte order mark."""


def sniff_encoding(head: bytes, *, default: str) -> tuple[str, int]:
    """Tell the encoding by its byte order mark, and how many bytes the mark takes.

    >>> sniff_encoding(b"\\xff\\xfeh\\x00", default="utf-8")
    ('utf-16-le', 2)
    >>> sniff_encoding(b"hi", default="latin-1")
    ('latin-1', 0)
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    return default, 0


def decode_whole(whole: Whole) -> str | Problem:
    """Decode a file strictly; a bad byte is a problem at its line."""
    encoding, skip = sniff_encoding(whole.data[:MARK_BYTES], default=whole.encoding)
    data = whole.data[skip:]
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        line = 1 + _newlines_before(error, data, encoding=encoding)
        return Problem(Place(whole.path, line), bad_bytes(encoding, error))


def bad_bytes(encoding: str, error: UnicodeError) -> str:
    """Explain that bytes do not decode, and what to do about it."""
    return f"not valid {encoding}: {describe(error)}; convert it to UTF-8, or set readers.encoding"


def keeps_newlines(encoding: str) -> bool:
    """Tell whether a line of text is a line of bytes in this encoding.

    >>> keeps_newlines("latin-1"), keeps_newlines("utf-16-le")
    (True, False)
    """
    return "\n".encode(encoding) == b"\n"


def transcode(chunks: Iterator[bytes], *, encoding: str) -> Iterator[bytes]:
    """Turn chunks of any encoding into chunks of UTF-8; raises UnicodeError at a bad byte."""
    decoder = codecs.getincrementaldecoder(encoding)()
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8")
    yield decoder.decode(b"", True).encode("utf-8")


def _newlines_before(error: UnicodeError, data: bytes, *, encoding: str) -> int:
    """Count the line ends before the byte that did not decode."""
    if not isinstance(error, UnicodeDecodeError):
        return 0
    good = data[: error.start]
    if keeps_newlines(encoding):
        return good.count(b"\n")
    return good.decode(encoding, errors="ignore").count("\n")
