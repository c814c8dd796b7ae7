"""From what a user names, a condition or docids, to the rows of a store."""

from __future__ import annotations

from collections.abc import Container, Sequence

from quoth.collection.content import document_texts
from quoth.collection.filter_syntax import parse_filter
from quoth.collection.store import Store
from quoth.collection.store_reader import SignedRow, StoredDocument
from quoth.compiled import quick
from quoth.errors import IndexMoved, NotFound
from quoth.records import Document, Hit
from quoth.text.signatures import make_signature

_make_stored = quick(StoredDocument)


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
    _require_all(hits, found)
    return found


def find_newest(store: Store, docids: Sequence[str]) -> dict[str, StoredDocument]:
    """Fetch the newest versions of those documents that there are, by docid."""
    rows = store.rows(docids) if docids else {}
    documents = store.documents(list(rows.values())) if rows else {}
    return {
        docid: _make_stored(row, documents[row]) for docid, row in rows.items() if row in documents
    }


class HitDocuments:
    """The documents of hits: what tells the same apart is read first, the texts where needed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, SignedRow] = {}
        self._made: dict[int, bytes] = {}
        self._read: dict[str, StoredDocument] = {}

    def look_up(self, hits: Sequence[Hit]) -> None:
        """Find rows and signatures of hits, all in one query."""
        unknown = [hit.docid for hit in hits if hit.docid not in self._rows]
        if not unknown:
            return
        self._rows |= self._store.signed_rows(unknown)
        retired = [docid for docid in unknown if docid not in self._rows]
        if retired:
            found = self._store.rows(retired)
            self._rows |= {docid: SignedRow(row, None) for docid, row in found.items()}
        _require_all(hits, self._rows)

    def signatures(self, hits: Sequence[Hit]) -> list[bytes]:
        """Return what tells near-identical documents; made here where none was stored."""
        self.look_up(hits)
        own = [self._rows[hit.docid] for hit in hits]
        unsigned = [each.row for each in own if each.signature is None]
        missing = [row for row in unsigned if row not in self._made]
        if missing:
            documents = self._store.documents(missing)
            self._made |= {row: sign(document) for row, document in documents.items()}
        return [self._made.get(each.row, b"") or each.signature or b"" for each in own]

    def read(self, hits: Sequence[Hit]) -> dict[str, StoredDocument]:
        """Read documents of hits, by docid; those that were read before are among them."""
        self.look_up(hits)
        unread = [hit.docid for hit in hits if hit.docid not in self._read]
        if unread:
            rows = {docid: self._rows[docid].row for docid in unread}
            documents = self._store.documents(list(rows.values()))
            self._read |= {
                docid: _make_stored(row, documents[row])
                for docid, row in rows.items()
                if row in documents
            }
            _require_all(hits, self._read)
        return self._read


def sign(document: Document) -> bytes:
    """Make what tells near-identical documents."""
    return make_signature(document_texts(document))


def _require_all(hits: Sequence[Hit], found: Container[str]) -> None:
    lost = next((hit for hit in hits if hit.docid not in found), None)
    if lost is not None:
        raise IndexMoved(f"a writer removed {lost.docid!r} during a search; search again")
