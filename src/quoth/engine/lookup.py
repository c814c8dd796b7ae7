"""From what a user names, a condition or a docid, to the rows of a store."""

from __future__ import annotations

from quoth.collection.filter_syntax import parse_filter
from quoth.collection.store import Store
from quoth.errors import CollectionError, IndexMoved
from quoth.records import Document, Hit


def allowed_rows(store: Store, where: str) -> set[int] | None:
    """Find the rows that fit a condition, None where there is no condition."""
    return store.allowed_rows(parse_filter(where)) if where.strip() else None


def newest(store: Store, docid: str) -> tuple[int, Document]:
    """Fetch the newest version of a document, with its row."""
    row = store.rows([docid]).get(docid)
    if row is None:
        raise CollectionError(f"there is no document {docid!r} in {store.path.parent}")
    return row, store.documents([row])[row]


def newest_of_hit(store: Store, hit: Hit) -> tuple[int, Document]:
    """Fetch the newest version of a document that was just found."""
    try:
        return newest(store, hit.docid)
    except CollectionError as error:
        raise IndexMoved(f"a writer removed {hit.docid!r} during a search; search again") from error
