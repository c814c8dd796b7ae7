"""Lines of any file, plain or gzipped, in flat memory.

A line longer than the limit is skipped piece by piece without ever being held. A stream that breaks
off (a truncated archive, a disk error) ends in one problem at the line it reached; the unfinished
line is not handed on, since nobody can tell whether it is whole.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO

from quoth.records import Place, Problem
from quoth.text.readers.decoding import MARK_BYTES, keeps_newlines, sniff_encoding, transcode
from quoth.text.readers.outcomes import describe

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its newline: its number from 1, its bytes, and what they are encoded in."""

    number: int
    data: bytes
    encoding: str

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing on it but white space."""
        return not self.data.strip(b" \t\r")


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a stream could not be read to its end."""

    message: str


@dataclass(slots=True)
class _OpenLine:
    """The line being put together: its pieces so far, dropped once they exceed the limit."""

    limit: int
    size: int = 0
    pieces: list[bytes] = field(default_factory=list)

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self.limit:
            self.pieces.clear()
        else:
            self.pieces.append(piece)

    def close(self, *, place: Place, encoding: str) -> Line | Problem:
        """Hand over the finished line and start the next one."""
        size, data = self.size, b"".join(self.pieces)
        self.size, self.pieces = 0, []
        if size > self.limit:
            return Problem(place, _too_long(size, self.limit))
        return Line(place.line or 1, data, encoding)


def file_chunks(path: str) -> Iterator[bytes]:
    """Read a file in chunks, unpacking it if its name ends in .gz."""
    with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as stream:
        while chunk := stream.read1(_CHUNK_BYTES):  # `read` would lose what precedes a bad block
            yield chunk


def stream_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Read a stream that somebody else opened and will close, in chunks."""
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def read_lines(
    chunks: Iterable[bytes], *, path: str, encoding: str, max_line_bytes: int
) -> Iterator[Line | Problem]:
    r"""Cut chunks into numbered lines of bounded length.

    >>> chunks = [b"one\ntw", b"o\nfar too long\n", b"four"]
    >>> for line in read_lines(chunks, path="a", encoding="utf-8", max_line_bytes=5):
    ...     print(line.data if isinstance(line, Line) else line.place)
    b'one'
    b'two'
    a:3
    b'four'
    """
    number, used, open_line = 1, encoding, _OpenLine(max_line_bytes)
    for piece in _until_failure(_newline_safe(iter(chunks), encoding)):
        if isinstance(piece, _Failure):
            yield Problem(Place(path, number), piece.message)
            return
        chunk, used = piece
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            open_line.add(end)
            yield open_line.close(place=Place(path, number), encoding=used)
            number += 1
        open_line.add(rest)
    if open_line.size:
        yield open_line.close(place=Place(path, number), encoding=used)


def _newline_safe(chunks: Iterator[bytes], encoding: str) -> Iterator[tuple[bytes, str]]:
    """Strip the byte order mark and, where newlines are not bytes, transcode; name the encoding."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= MARK_BYTES:
            break
    found, skip = sniff_encoding(head, default=encoding)
    rest = chain([head[skip:]], chunks)
    if keeps_newlines(found):
        yield from ((chunk, found) for chunk in rest)
    else:
        yield from ((chunk, "utf-8") for chunk in transcode(rest, encoding=found))


def _until_failure(
    pieces: Iterator[tuple[bytes, str]],
) -> Iterator[tuple[bytes, str] | _Failure]:
    """Pass pieces on; what stops the stream early becomes its last item."""
    try:
        yield from pieces
    except (OSError, EOFError, zlib.error, UnicodeError) as error:
        yield _Failure(f"cannot be read past this line: {describe(error)}")


def _too_long(size: int, limit: int) -> str:
    limits = f"readers.max_line_bytes is {limit:,}"
    return f"line of {size:,} bytes, but {limits}; split it or raise the limit"
