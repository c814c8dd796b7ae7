"""Documents prepared ahead are stored as those that the store prepares itself."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quoth.collection.preparing import DocumentPortion, join_prepared, prepare_portion
from quoth.collection.store import Store, Written
from quoth.errors import CorpusError
from quoth.records import Document
from quoth.text.passages import PassageConfig, cut_document

CONFIG = PassageConfig(max_words=20)
CUT = functools.partial(cut_document, config=CONFIG)


def _document(number: int, *, text: str = "owl") -> Document:
    words = " ".join(f"{text} number {number}." for _each in range(30))
    return Document(f"d{number}", {"text": (words,)}, {"number": number})


def _add_ahead(store: Store, documents: list[Document], known: dict[str, bytes]) -> Written:
    prepared = prepare_portion(DocumentPortion(tuple(documents), known), config=CONFIG)
    return store.add(documents, cut=CUT, prepared=join_prepared(documents, prepared))


def _dump(store: Store) -> list[str]:
    return list(store._db.connection.iterdump())


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    with (
        closing(Store.create(tmp_path / "one")) as one,
        closing(Store.create(tmp_path / "other")) as other,
    ):
        yield one, other


def test_what_is_stored_is_the_same(stores: tuple[Store, Store]) -> None:
    one, other = stores
    first = [_document(number) for number in range(10)]
    then = [_document(number, text="barn" if number % 3 else "owl") for number in range(5, 15)]
    for documents in (first, then):
        usual = one.add(documents, cut=CUT)
        known = other.digests([each.docid for each in documents])
        assert _add_ahead(other, documents, known) == usual
    assert _dump(one) == _dump(other)


def test_what_is_stored_already_is_not_cut_again(stores: tuple[Store, Store]) -> None:
    store, _other = stores
    documents = [_document(1), _document(2)]
    store.add(documents[:1], cut=CUT)
    portion = DocumentPortion(tuple(documents), store.digests(["d1", "d2"]))
    first, second = prepare_portion(portion, config=CONFIG)
    assert first.derived is None and second.derived is not None and second.derived.places


def test_a_version_that_was_replaced_since_is_prepared_anew(stores: tuple[Store, Store]) -> None:
    one, other = stores
    original, changed = _document(1), _document(1, text="barn")
    for store in stores:
        store.add([original], cut=CUT)
    known = other.digests(["d1"])
    for documents in ([changed], [original]):
        usual = one.add(documents, cut=CUT)
        assert _add_ahead(other, documents, known) == usual == Written(updated=1)
    assert _dump(one) == _dump(other)


def test_what_cannot_be_stored_is_refused_by_name(stores: tuple[Store, Store]) -> None:
    with pytest.raises(CorpusError, match="'bad' has no text"):
        _add_ahead(stores[0], [_document(1), Document("bad", {"text": ("",)})], {})
    assert stores[0].change == 0
