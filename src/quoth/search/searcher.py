"""What every way of searching offers: queries → Run; and upkeep, if it keeps an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from quoth.collection.store import Store
from quoth.records import Document, Part, Query, Run

Progress = Callable[[str, int, int], None]
"""Told what is going on, how much of it is done, and how much there is (0 if unknown)."""

Timed = Callable[[str], AbstractContextManager[None]]
"""Notes how long the block takes that a name is given to."""


class Searcher(Protocol):
    """A way of searching one collection."""

    name: str

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query among the allowed rows (None: all)."""
        ...

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say, for each document that such a search found, what its score is made of."""
        ...

    def close(self) -> None:
        """Release what was opened."""
        ...


class ScoringSearcher(Searcher, Protocol):
    """A searcher that can score a document which is not in the collection."""

    def score(self, queries: Sequence[Query], documents: Sequence[Document]) -> tuple[float, ...]:
        """Score each document for its own query as if it were in the collection; 0 for no match."""
        ...


@runtime_checkable
class PartialSearcher(Protocol):
    """A searcher that can be used before its index holds every document."""

    name: str

    @property
    def is_partial(self) -> bool:
        """Whether the index may lack documents."""
        ...

    @property
    def held_share(self) -> float:
        """The share of all documents that the index holds something of."""
        ...

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents the index does not hold yet."""
        ...


class KeptIndex(Protocol):
    """An index that is kept in step with the store."""

    folder: Path

    def is_current(self, change: int) -> bool:
        """Whether the index on disk holds everything up to a change."""
        ...

    def catch_up(self, store: Store, *, progress: Progress) -> None:
        """Apply all changes of the store that the index does not hold yet."""
        ...

    def rebuild(self, store: Store, *, progress: Progress) -> None:
        """Build the index anew from the store alone."""
        ...

    def find_damage(self, store: Store, *, progress: Progress) -> tuple[str, ...]:
        """Check every checksum of the index, and the index against the store.

        Changes not caught up with, as a killed writer leaves them, are no damage.
        """
        ...

    def num_behind(self, store: Store) -> int:
        """Count the changes that catching up would bring; 0 too where it must start over."""
        ...


class IndexedSearcher(Searcher, KeptIndex, Protocol):
    """A searcher with an index of its own, which it keeps in step with the store."""

    def describe(self) -> dict[str, Any]:
        """Say what the index holds and how it was built."""
        ...


def ignore_progress(_what: str, _done: int, _total: int) -> None:
    """Be told, and do nothing."""


def untimed(_name: str) -> AbstractContextManager[None]:
    """Take no notice of how long a block takes."""
    return nullcontext()
