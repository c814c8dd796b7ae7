"""Example conditions: on metadata that is there, of live documents, and cheap to find."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quoth.collection.filter_examples import SAMPLE, choose_examples
from quoth.collection.filter_syntax import parse_filter
from quoth.collection.store import FILE_NAME, Store
from quoth.records import Document
from quoth.text.passages import PassageConfig, cut_document

CUT = partial(cut_document, config=PassageConfig())


def _document(docid: str, metadata: dict[str, Any]) -> Document:
    return Document(docid, {"title": ("Short",), "text": ("An owl.",)}, metadata)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path)) as opened:
        yield opened


def test_every_example_is_a_condition_that_some_document_meets(store: Store) -> None:
    metadata = {
        "year": 2007,
        "lang": "en",
        "author": "Edgar Allan Poe",
        "draft": False,
        "my `key": 'a "quoted" \\ text',
        "not": 1.5,
    }
    store.add([_document("d1", metadata), _document("d2", {"year": 1999})], cut=CUT)
    examples = store.filter_examples(most=10)
    assert {example.key: example.value for example in examples} == metadata
    assert {example.kind for example in examples} == {"boolean", "number", "text"}
    for example in examples:
        assert store.allowed_rows(parse_filter(example.condition)), example.condition


def test_fields_and_removed_documents_give_no_examples(store: Store) -> None:
    store.add([_document("d1", {"gone": 1}), _document("d2", {})], cut=CUT)
    store.remove(["d1"])
    assert store.filter_examples(most=4) == ()


def test_what_cannot_be_shown_is_no_example() -> None:
    entries: list[tuple[str, int, Any]] = [
        ("long", 2, "x" * 61),
        ("empty", 2, ""),
        ("lines", 2, "a\nb"),
        ("k" * 41, 1, 1),
        ("infinite", 1, math.inf),
        ("damaged", 2, b"\xff"),
        ("damaged", 7, 1),
    ]
    assert choose_examples(entries, most=9) == ()


def test_at_most_so_many_and_the_commonest_first() -> None:
    entries = [("b", 1, number) for number in range(3)] + [("a", 2, "x"), ("c", 2, "y")]
    assert [example.key for example in choose_examples(entries, most=2)] == ["b", "a"]


def test_keys_with_one_value_everywhere_come_last() -> None:
    entries = [("format", 2, "md")] * 5 + [("year", 1, 1999), ("year", 1, 2000)]
    assert [example.key for example in choose_examples(entries, most=2)] == ["year", "format"]


def test_the_sample_follows_indexes(store: Store, tmp_path: Path) -> None:
    """So a hundred thousand documents cost no more than a few hundred."""
    store.add([_document("d1", {"year": 2007})], cut=CUT)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {SAMPLE}")]
    documents = [line for line in plan if "documents" in line]
    assert documents == ["SCAN documents USING INDEX documents_live"] * 2
    assert any("SEARCH filter_values USING" in line and "(row=?)" in line for line in plan), plan
    assert not any("ORDER BY" in line for line in plan)
