"""Parquet files: the columns `docid`, `fields` (a map of lists) and `metadata` (JSON).

A file of others needs a column `_id`, `id` or `docid`; its strings are fields, its numbers and
truth values metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from quoth.errors import CorpusError, MissingExtra
from quoth.interchange.shapes import FIELDS, METADATA
from quoth.records import Document

_ROWS = 1_000  # held at a time


def write_parquet(documents: Iterable[Document], path: Path) -> int:
    """Write documents, some at a time; returns how many."""
    arrow, parquet = _libraries()
    fields = arrow.map_(arrow.string(), arrow.list_(arrow.string()))
    columns = [("docid", arrow.string()), (FIELDS, fields), (METADATA, arrow.string())]
    schema, count, rest = arrow.schema(columns), 0, iter(documents)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows := [_row(each) for each in islice(rest, _ROWS)]:
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file as objects, one for each of its rows."""
    arrow, parquet = _libraries()
    try:
        with parquet.ParquetFile(path) as opened:
            for batch in opened.iter_batches(batch_size=_ROWS):
                yield from map(_record, batch.to_pylist())
    except (OSError, arrow.ArrowException) as error:
        raise CorpusError(f"{path}: not a Parquet file that can be read ({error})") from error


def _row(document: Document) -> dict[str, Any]:
    fields = [(name, list(texts)) for name, texts in document.fields.items()]
    metadata = json.dumps(dict(document.metadata), ensure_ascii=False)
    return {"docid": document.docid, FIELDS: fields, METADATA: metadata}


def _record(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a map, which is read as a list of pairs, and JSON into objects."""
    if isinstance(row.get(FIELDS), list):
        row[FIELDS] = dict(row[FIELDS])
    if isinstance(row.get(METADATA), str):
        row[METADATA] = json.loads(row[METADATA])
    return row


def _libraries() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(
            f'Parquet files need {error.name}; run pip install "quoth[parquet]"'
        ) from error
    return pyarrow, pyarrow.parquet
