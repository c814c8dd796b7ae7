"""Vectors that an encoding has made so far, as `quoth verify` looks after them.

They are checked like any index. But nobody waits for the rest of them unasked: what is missing is
no damage, and damaged ones are deleted, to be made by the next `quoth encode`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quoth.collection.store import Store
from quoth.search.searcher import Progress

if TYPE_CHECKING:
    from quoth.search.dense.searcher import DenseSearcher


class UnfinishedVectors:
    """A dense index that never held every document."""

    def __init__(self, dense: DenseSearcher) -> None:
        self.folder: Path = dense.folder
        self._dense = dense

    def is_current(self, change: int) -> bool:
        """Nothing more is expected of it."""
        return True

    def num_behind(self, store: Store) -> int:
        """Nothing more is expected of it."""
        return 0

    def catch_up(self, store: Store, *, progress: Progress) -> None:
        """Leave the rest to `quoth encode`."""

    def find_damage(self, store: Store, *, progress: Progress) -> tuple[str, ...]:
        """Check every checksum."""
        return self._dense.find_damage(store, progress=progress)

    def rebuild(self, store: Store, *, progress: Progress) -> None:
        """Delete the vectors, which `quoth encode` makes again."""
        self._dense.discard()
