"""Documents carried from one store to another: all that belongs to them, and their damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from quoth.collection.store import Store
from quoth.records import Document
from quoth.text.passages import PassageConfig, cut_document

CUT = partial(cut_document, config=PassageConfig(max_words=5))
DOCUMENTS = [
    Document("a", {"title": ("Owls",), "text": ("one two three four five six seven",)}),
    Document("b", {"text": ("a barn", "a second barn")}, {"year": 1999, "tags": ("x", True, 2.5)}),
    Document("c", {"text": ("gone soon",)}),
    Document("d", {"title": ("Œuvre",), "text": (" ".join(map(str, range(80))),)}, {"year": 1913}),
]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path / "source")) as opened:
        opened.add(DOCUMENTS, cut=CUT)
        opened.add([Document("a", {"text": ("one two three four five six",)})], cut=CUT)
        opened.remove(["c"])
        opened.put_identifiers({"a": ["owl", "an owl"], "d": ["work"]}, origin="title")
        opened.put_identifiers({"a": ["written"]}, origin="query")
        yield opened


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path / "target")) as opened:
        yield opened


def _carry(source: Store, target: Store) -> None:
    target.put_fields(source.fields())
    documents = list(source.carried_documents())
    target.carry(source.complete_carried(documents, [10 * each.row for each in documents]))


def test_all_that_belongs_to_live_documents_comes_along(source: Store, target: Store) -> None:
    _carry(source, target)
    live = list(source.live_documents())
    assert [each.document.docid for each in live] == ["b", "d", "a"]
    assert list(target.live_documents()) == [
        type(each)(10 * each.row, each.document) for each in live
    ]
    for each in live:
        row, docid = each.row, each.document.docid
        assert target.passages(each.document, 10 * row) == source.passages(each.document, row)
        assert target.identifiers_by_origin(10 * row) == source.identifiers_by_origin(row)
        assert target.signatures([10 * row])[10 * row] == source.signatures([row])[row]
        assert target.digests([docid]) == source.digests([docid])
    assert list(target.find_damage(cut=CUT)) == []
    assert target.filter_examples(most=9) == source.filter_examples(most=9)
    assert target.count_changes(0) == {"add": 3, "identify": 3}


def test_what_was_altered_is_still_found_to_be(source: Store, target: Store) -> None:
    with closing(sqlite3.connect(source.path)) as connection, connection:
        connection.execute("UPDATE documents SET content = replace(content, 'six', 'sex')")
    _carry(source, target)
    assert [line for line in target.find_damage(cut=CUT) if "'a' was altered" in line]


def test_signatures_are_made_where_none_were_stored(source: Store, target: Store) -> None:
    expected = [source.signatures([each.row])[each.row] for each in source.live_documents()]
    source.close()
    with closing(sqlite3.connect(source.path)) as connection, connection:
        connection.execute("DROP TABLE signatures")
    with closing(Store.open(source.path.parent)) as old:
        _carry(old, target)
    found = [target.signatures([each.row])[each.row] for each in target.live_documents()]
    assert found == expected and any(found)


def test_a_batch_of_nothing_changes_nothing(target: Store) -> None:
    target.carry([])
    assert target.change == 0 and target.num_documents == 0
