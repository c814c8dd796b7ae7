"""Read pairs of a query and the passage that answers it, from JSON Lines or a table with tabs.

    {"query": "…", "passage": "…", "negatives": ["…"]}
    {"query": "…", "positive": {"title": "…", "text": "…"}}
    query<TAB>passage[<TAB>negative…]

A passage is text, or an object of fields; `positive` is another name for it. Which of the two a
file holds is seen from its first line; .gz is unpacked. What is wrong is told with path:line,
several lines at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from quoth.errors import CorpusError
from quoth.models.glow.inputs import Fields
from quoth.records import Place, Problem
from quoth.text.readers.lines import Line, file_chunks, read_lines

MAX_PROBLEMS = 5
"""A file is read until this many of its lines were found wrong; they are reported together."""

MAX_LINE_BYTES = 16 << 20

_EXAMPLE = '{"query": "…", "passage": "…"}'
_PASSAGE_KEYS = ("passage", "positive")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A query, the passage that answers it, and passages that do not."""

    query: str
    passage: Fields
    negatives: tuple[Fields, ...] = ()


class Malformed(Exception):
    """A line cannot be used: says why, the reader adds where."""


def read_pairs(path: Path, *, body: str) -> list[LabelledPair]:
    """Read all pairs of a file; a passage that is plain text becomes the field `body`."""
    chosen: list[Callable[[str, str], LabelledPair]] = []

    def parse(text: str) -> LabelledPair:
        if not chosen:
            chosen.append(_parse_json if text.lstrip().startswith("{") else _parse_tsv)
        return chosen[0](text, body)

    return read_labelled(path, parse, kind="pairs", expected=f"lines such as {_EXAMPLE}")


def read_labelled(path: Path, parse: Callable[[str], _T], *, kind: str, expected: str) -> list[_T]:
    """Read a file line by line; `parse` raises Malformed where a line cannot be used."""
    if not path.is_file():
        raise CorpusError(f"{path} is no file; expected {expected}")
    found: list[_T] = []
    problems: list[Problem] = []
    for place, text in _lines(path, problems):
        try:
            found.append(parse(text))
        except Malformed as error:
            problems.append(Problem(place, str(error)))
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        more = "\n(reading stopped here)" if len(problems) >= MAX_PROBLEMS else ""
        raise CorpusError("\n".join(map(str, problems)) + more)
    if not found:
        raise CorpusError(f"{path} holds no {kind}; expected {expected}")
    return found


def parse_object(text: str, *, example: str) -> dict[str, Any]:
    """Read a line that holds an object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise Malformed(f"expected an object such as {example}")
    return value


def require_text(name: str, value: Any) -> str:
    """Return a value that must be text, and not empty."""
    if isinstance(value, str) and value.strip():
        return value
    found = "missing" if value is None else "empty" if isinstance(value, str) else "not text"
    raise Malformed(f"{name} is {found}")


def _lines(path: Path, problems: list[Problem]) -> Iterator[tuple[Place, str]]:
    """Yield the lines that hold something, as text; what cannot be read goes to the problems."""
    chunks = file_chunks(str(path))
    for line in read_lines(chunks, path=str(path), encoding="utf-8", max_line_bytes=MAX_LINE_BYTES):
        if isinstance(line, Problem):
            problems.append(line)
        elif not line.is_blank:
            yield from _decode(line, Place(str(path), line.number), problems)


def _decode(line: Line, place: Place, problems: list[Problem]) -> Iterator[tuple[Place, str]]:
    try:
        yield place, line.data.decode(line.encoding).rstrip("\r")
    except UnicodeDecodeError as error:
        problems.append(Problem(place, f"not {line.encoding} text ({error.reason})"))


def _parse_json(text: str, body: str) -> LabelledPair:
    """Read one object.

    >>> _parse_json('{"query": "owl?", "passage": "An owl.", "negatives": ["A hen."]}', "text")
    LabelledPair(query='owl?', passage={'text': ('An owl.',)}, negatives=({'text': ('A hen.',)},))
    """
    value = parse_object(text, example=_EXAMPLE)
    key = next((key for key in _PASSAGE_KEYS if key in value), None)
    if key is None:
        raise Malformed(f"has neither passage nor positive; expected {_EXAMPLE}")
    negatives = value.get("negatives", [])
    if not isinstance(negatives, list):
        raise Malformed("negatives is no list of passages")
    return LabelledPair(
        require_text("query", value.get("query")),
        _fields(key, value[key], body),
        tuple(_fields(f"negatives[{at}]", each, body) for at, each in enumerate(negatives)),
    )


def _parse_tsv(text: str, body: str) -> LabelledPair:
    """Read one row.

    >>> _parse_tsv("owl?\\tAn owl.", "text")
    LabelledPair(query='owl?', passage={'text': ('An owl.',)}, negatives=())
    """
    cells = text.split("\t")
    if len(cells) < 2:
        raise Malformed(f"expected query<TAB>passage, or JSON such as {_EXAMPLE}")
    query, passage, *negatives = cells
    return LabelledPair(
        require_text("query", query),
        _fields("passage", passage, body),
        tuple(_fields("negative", each, body) for each in negatives if each.strip()),
    )


def _fields(name: str, value: Any, body: str) -> Fields:
    if not isinstance(value, Mapping):
        return {body: (require_text(name, value),)}
    fields = {key: _instances(f"{name}.{key}", each) for key, each in value.items()}
    if not any(text.strip() for texts in fields.values() for text in texts):
        raise Malformed(f"{name} holds no text")
    return fields


def _instances(name: str, value: Any) -> tuple[str, ...]:
    """Take one text or several; a field may be empty where another is not."""
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in values):
        raise Malformed(f"{name} is neither text nor a list of texts")
    return tuple(values)
