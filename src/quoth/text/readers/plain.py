"""Plain text files: one document, its text as written, but for words that `man` parts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from quoth.records import Problem
from quoth.text.readers.decoding import decode_whole
from quoth.text.readers.outcomes import Outcome, Whole, file_document

_HYPHEN = "\u2010"
_PARTED = re.compile(rf"(?<=[^\W\d_]){_HYPHEN}(\r?\n)[ \t]*([^\W\d_]\S*)")


def read_plain(whole: Whole) -> Iterator[Outcome]:
    """Read a text file as one document without a title."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
    else:
        yield file_document(whole, format="txt", text=join_parted(text))


def join_parted(text: str) -> str:
    r"""Join the words that stand parted at ends of lines by U+2010, as `man` writes them.

    Lines end behind the joined words, so that those below keep their numbers. Where U+2010 stands
    anywhere else, it may be part of a word, and nothing is joined.

    >>> join_parted("a discus\u2010\n       sion of tar")
    'a discussion\n of tar'
    >>> parted = "by delta\u2010transfer, un\u2010\nlike"
    >>> join_parted(parted) == parted
    True
    """
    joined = _PARTED.sub(r"\2\1", text)
    return text if _HYPHEN in joined else joined
