"""Read plain or gzipped files by line, with path:line for what is wrong; write atomically."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast
from uuid import uuid4

from quoth.errors import EvaluationError
from quoth.records import Place, Problem

MAX_PROBLEMS = 5
"""A file is read until this many of its lines were found wrong; they are reported together."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

NumberedLine = tuple[int, bytes]


class Malformed(Exception):
    """A line cannot be used: says why, the reader adds where. Never leaves this room."""


def numbered_lines(path: Path) -> Iterator[NumberedLine]:
    """Yield the lines that are not blank with their numbers, from 1, without their line ends."""
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                if text.strip():
                    yield number, text.rstrip(b"\r\n")
    except OSError as error:
        raise EvaluationError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise EvaluationError(f"cannot read {path}: the gzip data is damaged ({error})") from error


def take_lines(path: Path, lines: Iterable[NumberedLine], take: Callable[[str], None]) -> None:
    """Hand each line to `take`; raise at once for those it finds `Malformed`."""
    problems: list[Problem] = []
    for number, line in lines:
        try:
            take(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            problems.append(_problem(path, number, f"not UTF-8 text ({error.reason})"))
        except Malformed as error:
            problems.append(_problem(path, number, str(error)))
        if len(problems) == MAX_PROBLEMS:
            break
    if problems:
        raise EvaluationError(_report(problems))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines under a temporary name, gzipped if the name ends in .gz, then rename.

    The folder is made if it is missing; a failure leaves what was at `path` untouched.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_and_rename(path, lines)
    except OSError as error:
        raise EvaluationError(f"cannot write {path}: {error.strerror or error}") from error


def shorten(text: str, *, length: int = 60) -> str:
    """Quote a text for a message, cut to a length.

    >>> shorten("a b"), shorten("abcdef", length=3)
    ("'a b'", "'abc…'")
    """
    return repr(text if len(text) <= length else text[:length] + "…")


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        zipped = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    if zipped or path.name.endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _write_and_rename(path: Path, lines: Iterable[str]) -> None:
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            _write(file, lines, zipped=path.name.endswith(".gz"))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write(file: BinaryIO, lines: Iterable[str], *, zipped: bool) -> None:
    encoded = (f"{line}\n".encode() for line in lines)
    if not zipped:
        file.writelines(encoded)
        return
    # No name and no time inside: the same lines give the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipper:
        zipper.writelines(encoded)


def _problem(path: Path, number: int, message: str) -> Problem:
    return Problem(Place(str(path), number), message)


def _report(problems: list[Problem]) -> str:
    """Join the problems of one file; at the limit, say that there may be more."""
    more = "\n(reading stopped here)" if len(problems) == MAX_PROBLEMS else ""
    return "\n".join(map(str, problems)) + more
