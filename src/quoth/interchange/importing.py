"""Read documents that `quoth export` or another program wrote, as they are.

A source is a .jsonl file (plain or .gz), a .parquet file, a folder as BEIR has it, or `-` for JSON
Lines on standard input. Other formats are for `quoth add`, which makes documents of files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from quoth.errors import CorpusError
from quoth.interchange.shapes import from_record
from quoth.records import Located, Place, Problem
from quoth.text.readers.lines import file_chunks, read_lines, stream_chunks

STANDARD_INPUT = "-"
_LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
_CORPORA = ("corpus.jsonl", "corpus.jsonl.gz")
_MAX_LINE_BYTES = 1 << 30

Report = Callable[[Problem], None]


def read_source(source: str, *, report: Report) -> Iterator[Located]:
    """Read the documents of a source in order; what cannot be read goes to `report`."""
    if source == STANDARD_INPUT:
        yield from _read_lines(stream_chunks(sys.stdin.buffer), STANDARD_INPUT, report)
        return
    path = _find_file(Path(source))
    if path.name.lower().endswith(".parquet"):
        from quoth.interchange.parquet import read_parquet

        yield from _documents(enumerate(read_parquet(path), start=1), str(path), report)
    elif path.name.lower().endswith(_LINES):
        yield from _read_lines(file_chunks(str(path)), str(path), report)
    else:
        raise CorpusError(
            f"{path}: expected a name that ends in .jsonl, .jsonl.gz or .parquet, or a BEIR folder;"
            " quoth add reads other files"
        )


def _find_file(path: Path) -> Path:
    """Find the file of documents: the path itself, or the corpus of a BEIR folder."""
    if not path.exists():
        raise CorpusError(f"{path}: there is no such file or folder")
    if not path.is_dir():
        return path
    found = next((path / name for name in _CORPORA if (path / name).is_file()), None)
    if found is None:
        raise CorpusError(f"{path}: this folder holds no corpus.jsonl; quoth add reads folders")
    return found


def _read_lines(chunks: Iterator[bytes], path: str, report: Report) -> Iterator[Located]:
    lines = read_lines(chunks, path=path, encoding="utf-8", max_line_bytes=_MAX_LINE_BYTES)

    def records() -> Iterator[tuple[int, Any]]:
        for line in lines:
            if isinstance(line, Problem):
                report(line)
            elif not line.is_blank:
                try:
                    yield line.number, json.loads(line.data.decode(line.encoding))
                except (ValueError, RecursionError) as error:
                    report(Problem(Place(path, line.number), f"not valid JSON ({error})"))

    yield from _documents(records(), path, report)


def _documents(records: Iterator[tuple[int, Any]], path: str, report: Report) -> Iterator[Located]:
    for number, record in records:
        place = Place(path, number)
        try:
            yield Located(from_record(record), place)
        except CorpusError as error:
            report(Problem(place, str(error)))
