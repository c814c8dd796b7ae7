"""What every way of searching offers: queries → Run, and upkeep of its own index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from quoth.collection.store import Store
from quoth.records import Document, Part, Query, Run

Progress = Callable[[str, int, int], None]
"""Told what is going on, how much of it is done, and how much there is (0 if unknown)."""


class Searcher(Protocol):
    """A way of searching one collection."""

    name: str

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query among the allowed rows (None: all)."""
        ...

    def explain(self, query: Query, documents: Sequence[Document]) -> tuple[Part, ...]:
        """Say, for each document, what its score is made of."""
        ...

    def catch_up(self, store: Store, *, progress: Progress) -> None:
        """Apply all changes of the store that the index does not hold yet."""
        ...

    def rebuild(self, store: Store, *, progress: Progress) -> None:
        """Build the index anew from the store alone."""
        ...

    def find_damage(self, store: Store, *, progress: Progress) -> tuple[str, ...]:
        """Check every checksum of the index, and the index against the store."""
        ...


def ignore_progress(_what: str, _done: int, _total: int) -> None:
    """Be told, and do nothing."""
