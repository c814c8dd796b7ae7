"""Queries that people asked, without judgements: the setting of the thesis.

A file of plain lines, or of JSON Lines with `query` or `text`, as `quoth serve --log-queries` and
BEIR write them. Each query counts once, however often it was asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from quoth.artifact import seal_file
from quoth.errors import CorpusError
from quoth.selfsupervision.pseudo_pairs import words_of

_KEYS = ("query", "text")


def seal_log(path: Path) -> str:
    """Name the content of a log, to tell it from another."""
    _require_file(path)
    return seal_file(path).sha256


def read_log(path: Path) -> list[str]:
    """Read the distinct queries of a log, in their order; those without words are left out."""
    _require_file(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    found: dict[tuple[str, ...], str] = {}
    for number, line in enumerate(lines, start=1):
        text = _read_line(line.strip(), f"{path}:{number}")
        if words := tuple(words_of(text)):
            found.setdefault(words, text)
    if not found:
        raise CorpusError(f"{path} holds no queries; expected one per line, or JSON Lines")
    return list(found.values())


def _read_line(line: str, place: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        record: Any = json.loads(line)
    except ValueError as error:
        raise CorpusError(f"{place} is no JSON ({error}); expected {_EXAMPLE}") from error
    text = next((record[key] for key in _KEYS if isinstance(record.get(key), str)), None)
    if text is None:
        raise CorpusError(f"{place} has neither query nor text; expected {_EXAMPLE}")
    return str(text)


_EXAMPLE = '{"query": "…"}'


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise CorpusError(f"{path} is no file; expected queries, one per line, or JSON Lines")
