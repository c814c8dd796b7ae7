"""From what a user names, a condition or docids, to the rows of a store."""

from __future__ import annotations

from collections.abc import Sequence

from quoth.collection.filter_syntax import parse_filter
from quoth.collection.store import Store
from quoth.collection.store_reader import StoredDocument
from quoth.errors import IndexMoved, NotFound
from quoth.records import Document, Hit


def allowed_rows(store: Store, where: str) -> set[int] | None:
    """Find the rows that fit a condition, None where there is no condition."""
    return store.allowed_rows(parse_filter(where)) if where.strip() else None


def newest(store: Store, docids: Sequence[str]) -> list[Document]:
    """Fetch the newest versions of documents, in their order."""
    found = find_newest(store, docids)
    missing = [docid for docid in docids if docid not in found]
    if missing:
        raise NotFound(f"there is no document {missing[0]!r} in {store.path.parent.name}")
    return [found[docid].document for docid in docids]


def stored_hits(store: Store, hits: Sequence[Hit]) -> dict[str, StoredDocument]:
    """Fetch documents that were just found, by docid."""
    found = find_newest(store, [hit.docid for hit in hits])
    for hit in hits:
        if hit.docid not in found:
            raise IndexMoved(f"a writer removed {hit.docid!r} during a search; search again")
    return found


def find_newest(store: Store, docids: Sequence[str]) -> dict[str, StoredDocument]:
    """Fetch the newest versions of those documents that there are, by docid."""
    rows = store.rows(docids) if docids else {}
    documents = store.documents(list(rows.values())) if rows else {}
    return {
        docid: StoredDocument(row, documents[row])
        for docid, row in rows.items()
        if row in documents
    }
