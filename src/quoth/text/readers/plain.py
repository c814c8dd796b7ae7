"""Plain text files: one document, its text as written."""

from __future__ import annotations

from collections.abc import Iterator

from quoth.records import Problem
from quoth.text.readers.decoding import decode_whole
from quoth.text.readers.outcomes import Outcome, Whole, file_document


def read_plain(whole: Whole) -> Iterator[Outcome]:
    """Read a text file as one document without a title."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
    else:
        yield file_document(whole, format="txt", text=text)
