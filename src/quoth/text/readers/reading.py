"""From sources to documents: the one entry point of the readers.

A source is a file, a folder, a glob, `-` for standard input, or `python:NAME`. Every piece of input
ends either as a document or as a reported problem, in the order of the input; nothing is held
beyond the piece at hand.
"""

from __future__ import annotations

import codecs
import importlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import BinaryIO

from quoth.records import Located, Place, Problem
from quoth.text.readers.apart import Limits, read_apart
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.docx import read_docx
from quoth.text.readers.files import (
    SUPPORTED,
    find_files,
    find_format,
    find_obstacle,
    read_whole,
    show_path,
)
from quoth.text.readers.html import read_html
from quoth.text.readers.jsonl import read_json, read_jsonl
from quoth.text.readers.keys import Keys
from quoth.text.readers.lines import file_chunks, read_lines, stream_chunks
from quoth.text.readers.markup import read_markdown, read_rst
from quoth.text.readers.outcomes import Outcome, Whole, describe, find_flaw, too_large
from quoth.text.readers.pdf import read_pdf
from quoth.text.readers.plain import read_plain
from quoth.text.readers.python_docs import read_python
from quoth.text.readers.tables import read_table

Report = Callable[[Problem], None]
"""What to do with a problem: collect it, show it, or raise (strict)."""

STANDARD_INPUT = "-"
PYTHON_PREFIX = "python:"

WHOLE_READERS: dict[str, Callable[[Whole], Iterator[Outcome]]] = {
    "txt": read_plain,
    "md": read_markdown,
    "rst": read_rst,
    "html": read_html,
    "pdf": read_pdf,
    "docx": read_docx,
}
_OWN_PARSERS = frozenset(("txt", "md", "rst", "ipynb", "tex", "code"))
"""Formats that our own code reads in this process; others are read apart."""
_FORMATS = "quoth.text.readers.formats"
_LATER_READERS = {
    "odt": ("opendocument", "read_odt"),
    "odp": ("opendocument", "read_odp"),
    "ods": ("opendocument", "read_ods"),
    "pptx": ("office", "read_pptx"),
    "xlsx": ("office", "read_xlsx"),
    "epub": ("epub", "read_epub"),
    "eml": ("mail", "read_eml"),
    "mbox": ("mail", "read_mbox"),
    "ipynb": ("notebook", "read_notebook"),
    "tex": ("tex", "read_tex"),
    "python": ("code", "read_python_code"),
    "code": ("code", "read_code"),
}
"""Readers that are imported when a file needs them: module and function."""


def _read_later(module: str, name: str) -> Callable[[Whole], Iterator[Outcome]]:
    def read(whole: Whole) -> Iterator[Outcome]:
        reader: Callable[[Whole], Iterator[Outcome]] = getattr(
            importlib.import_module(f"{_FORMATS}.{module}"), name
        )
        return reader(whole)

    return read


WHOLE_READERS |= {each: _read_later(*where) for each, where in _LATER_READERS.items()}

_DELIMITERS = {"csv": ",", "tsv": "\t"}


def read_documents(
    sources: Sequence[str],
    *,
    config: ReaderConfig,
    report: Report,
    standard_input: BinaryIO | None = None,
) -> Iterator[Located]:
    """Read the documents of all sources in order, reporting every piece that had to be skipped.

    `report` may raise; the exception passes through. `standard_input` stands in for the process's
    own standard input.
    """
    for source in sources:
        with closing(_read_source(source, config, standard_input=standard_input)) as outcomes:
            for outcome in map(_refuse_flawed, outcomes):
                if isinstance(outcome, Problem):
                    report(outcome)
                else:
                    yield outcome


def _read_source(
    source: str, config: ReaderConfig, *, standard_input: BinaryIO | None
) -> Generator[Outcome, None, None]:
    """Read whatever a source string means."""
    if source == STANDARD_INPUT:
        stream = standard_input or sys.stdin.buffer
        yield from _or_nothing(_read_stream(stream, config), STANDARD_INPUT)
    elif source.startswith(PYTHON_PREFIX):
        yield from _or_nothing(read_python(source.removeprefix(PYTHON_PREFIX)), source)
    else:
        for path in find_files(source):
            if isinstance(path, Problem):
                yield path
            else:
                yield from _or_nothing(_read_file(path, config, show_path(path)), show_path(path))


def read_file(path: str, config: ReaderConfig, *, shown: str) -> Iterator[Outcome]:
    """Read one file, which documents and problems call `shown`."""
    yield from map(_refuse_flawed, _or_nothing(_read_file(path, config, shown), shown))


def _read_file(path: str, config: ReaderConfig, shown: str) -> Iterator[Outcome]:
    """Read one file by the format its name announces."""
    format = find_format(path)
    obstacle = find_obstacle(path)
    if obstacle:
        yield Problem(Place(shown), obstacle)
    elif format is None:
        yield Problem(Place(shown), f"unknown format; supported: {SUPPORTED}")
    elif format == "jsonl" or format in _DELIMITERS:
        yield from _read_line_format(file_chunks(path), config, path=shown, format=format)
    else:
        yield from _read_whole_format(path, config, shown=shown, format=format)


def _read_line_format(
    chunks: Iterator[bytes], config: ReaderConfig, *, path: str, format: str
) -> Iterator[Outcome]:
    """Read a format that streams line by line."""
    keys, limit = _keys_of(config), config.max_line_bytes
    lines = read_lines(chunks, path=path, encoding=config.encoding, max_line_bytes=limit)
    if format == "jsonl":
        return read_jsonl(lines, path=path, keys=keys)
    delimiter = _DELIMITERS[format]
    return read_table(lines, path=path, delimiter=delimiter, keys=keys, max_line_bytes=limit)


def _read_whole_format(
    path: str, config: ReaderConfig, *, shown: str, format: str
) -> Iterator[Outcome]:
    """Read a format that only makes sense as a whole."""
    data = read_whole(path, max_bytes=config.max_file_bytes, shown=shown)
    if isinstance(data, Problem):
        yield data
        return
    if not data:
        yield Problem(Place(shown), "empty file")
        return
    whole = Whole(shown, data, config.encoding, config.max_file_bytes)
    if format == "json":
        yield from read_json(whole, keys=_keys_of(config))
    else:
        limits = Limits(config.max_seconds, config.max_memory_bytes)
        is_ours = format in _OWN_PARSERS or not config.max_seconds
        outcomes = None if is_ours else read_apart(format, whole, limits)
        yield from WHOLE_READERS[format](whole) if outcomes is None else outcomes


def _read_stream(stream: BinaryIO, config: ReaderConfig) -> Iterator[Outcome]:
    """Read standard input: JSON Lines if it starts with a brace, otherwise one text."""
    chunks = stream_chunks(stream)
    try:
        head = _read_head(chunks, max_bytes=config.max_file_bytes)
        if _starts_with_brace(head):
            whole = chain([head], chunks)
            yield from _read_line_format(whole, config, path=STANDARD_INPUT, format="jsonl")
            return
        data = _join(chain([head], chunks), max_bytes=config.max_file_bytes)
    except OSError as error:
        yield Problem(Place(STANDARD_INPUT), f"cannot be read: {describe(error)}")
        return
    if len(data) > config.max_file_bytes:
        message = too_large("text", config.max_file_bytes)
        yield Problem(Place(STANDARD_INPUT), message)
    else:
        yield from read_plain(Whole(STANDARD_INPUT, data, config.encoding, config.max_file_bytes))


def _read_head(chunks: Iterator[bytes], *, max_bytes: int) -> bytes:
    """Read up to the first chunk that is not blank."""
    head = b""
    for chunk in chunks:
        head += chunk
        if _bare(head) or len(head) > max_bytes:
            break
    return head


def _bare(head: bytes) -> bytes:
    """Take away the byte order mark, the blanks, and the zero bytes that UTF-16 puts between.

    >>> _bare(codecs.BOM_UTF16_LE + " {".encode("utf-16-le"))
    b'{\\x00'
    """
    marks = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    mark = next((mark for mark in marks if head.startswith(mark)), b"")
    return head.removeprefix(mark).lstrip(b" \t\r\n\0")


def _starts_with_brace(head: bytes) -> bool:
    return _bare(head).startswith(b"{")


def _join(chunks: Iterator[bytes], *, max_bytes: int) -> bytes:
    """Join chunks up to just beyond a limit."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > max_bytes:
            break
    return bytes(data)


def _or_nothing(outcomes: Iterator[Outcome], shown: str) -> Iterator[Outcome]:
    """Pass outcomes on; where there are none, that is a problem too."""
    is_empty = True
    for outcome in outcomes:
        is_empty = False
        yield outcome
    if is_empty:
        yield Problem(Place(shown), "contains no documents")


def _refuse_flawed(outcome: Outcome) -> Outcome:
    """Turn a document that cannot be kept into a problem at its place."""
    flaw = find_flaw(outcome.document) if isinstance(outcome, Located) else ""
    return Problem(outcome.place, flaw) if flaw else outcome


def _keys_of(config: ReaderConfig) -> Keys:
    return Keys(config.id_key, frozenset(config.metadata_keys))
