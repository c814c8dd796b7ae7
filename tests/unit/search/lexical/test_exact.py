"""What is kept of rows for exact scores, and that rows which are gone do not stay in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from quoth.collection import store_reader
from quoth.engine.engine import Engine
from quoth.records import Document, Query
from quoth.search.lexical import exact


def _version(number: int, version: int) -> Document:
    return Document(f"d{number}", {"text": (f"barn owl number {number} version {version}",)})


def test_rows_that_are_gone_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_reader, "FEWEST_FORGOTTEN", 10)
    monkeypatch.setattr(exact, "FEWEST_FORGOTTEN", 10)
    folder = tmp_path / "c.quoth"
    with Engine.open(folder) as writer, Engine.open(folder) as reader:
        for version in range(30):
            writer.add_documents(_version(number, version) for number in range(8))
            found = reader.search("barn owl", k=8)
            assert sorted(hit.docid for hit in found) == [f"d{number}" for number in range(8)]
            lexical = reader._searchers.lexical(syntax=True)
            scores = lexical.settle(Query("", "barn owl"), [hit.docid for hit in found])
            assert scores == tuple(hit.score for hit in found)
            counted, read = lexical._exact._counts_by_row, reader._reader()._read_documents
            assert len(counted) <= 2 * 8 + 8 and len(read) <= 2 * 8 + 8
            sizes = sum(each.size for each in counted.values())
            assert lexical._exact._num_counts == sizes
