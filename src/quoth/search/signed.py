"""Let searchers that know no signs keep to those of a query.

BM25 reads `+word`, `-word` and phrases itself; vectors and identifiers know nothing of them. They
are asked for the words that are wanted, without signs, and find only what BM25's index says to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quoth.records import Document, Hit, Part, Query, Run
from quoth.search.searcher import PartialSearcher, Searcher


class SignedSearcher:
    """Searches with another searcher, by the words of a query and within its signs."""

    def __init__(
        self,
        side: Searcher,
        *,
        plain: Callable[[Query], Query],
        fitting: Callable[[Query], set[int] | None],
    ) -> None:
        """Search with `side`.

        `plain` returns a query without its signs, `fitting` the rows that they leave, or None where
        there are none.
        """
        self.name = side.name
        self._side = side
        self._plain = plain
        self._fitting = fitting

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query; those without signs are asked together."""
        rows = {query.qid: self._fitting(query) for query in queries}
        free = [self._plain(query) for query in queries if rows[query.qid] is None]
        hits = dict(self._side.search(free, k=k, allowed=allowed).hits) if free else {}
        for query in queries:
            own = rows[query.qid]
            if own is not None:
                left = own if allowed is None else own & allowed
                hits[query.qid] = self._search_within(self._plain(query), left, k=k)
        return Run(self.name, {query.qid: hits[query.qid] for query in queries})

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say what the score of each document that was found is made of."""
        return self._side.explain(self._plain(query), documents, k=k, allowed=allowed)

    def close(self) -> None:
        """Nothing is open here; the other searcher is closed by whoever made it."""

    @property
    def is_partial(self) -> bool:
        """Whether the other searcher may lack documents."""
        return isinstance(self._side, PartialSearcher) and self._side.is_partial

    @property
    def held_share(self) -> float:
        """The share of all documents that the other searcher holds something of."""
        return self._side.held_share if isinstance(self._side, PartialSearcher) else 1.0

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents the other searcher does not hold yet."""
        side = self._side
        return side.lacking(docids) if isinstance(side, PartialSearcher) else frozenset()

    def _search_within(self, query: Query, rows: set[int], *, k: int) -> tuple[Hit, ...]:
        if not rows or not query.text.strip():  # a query may be nothing but what it excludes
            return ()
        return self._side.search([query], k=k, allowed=rows).hits[query.qid]
