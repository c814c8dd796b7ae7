"""The vectors of a collection, opened: the newest on disk, whole or as far as they have come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quoth.collection.store import Store
from quoth.errors import IndexMismatch
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.state import DenseState, read_state
from quoth.models.glow.config import GlowConfig
from quoth.search.coverage import Coverage, HeldVectors
from quoth.search.dense.coverage import Stamp, count_units, stamp


@dataclass(slots=True)
class _Unfinished:
    """What is known of an index that does not hold everything yet."""

    opened: Stamp | None
    live: set[int]
    held_share: float
    num_units: int | None = None


class OpenedVectors:
    """One dense index, opened when first asked for."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        config: DenseConfig,
        identify: Callable[[], dict[str, Any]],
    ) -> None:
        """Open the vectors of the model that `identify` describes."""
        self._folder = folder
        self._store = store
        self._config = config
        self._identify = identify
        self._index: DenseIndex | None = None
        self._unfinished: _Unfinished | None = None

    @property
    def index(self) -> DenseIndex:
        """The state that was opened last, or the newest."""
        if self._index is None:
            found, change = stamp(self._folder), self._store.change
            self._index = self.open_anew()
            holds = (self._index.change, self._index.log)
            is_whole = holds == (change, self._store.log_digest(change))
            self._unfinished = None if is_whole else self._look_at_unfinished(self._index, found)
        return self._index

    def _look_at_unfinished(self, index: DenseIndex, opened: Stamp | None) -> _Unfinished:
        live = self._store.live_rows()
        held = len(live.intersection(index.rows().tolist()))
        return _Unfinished(opened, live, held / max(1, len(live)))

    @property
    def held_share(self) -> float:
        """The share of all documents that have a vector."""
        return self._unfinished.held_share if self.is_partial and self._unfinished else 1.0

    @property
    def is_partial(self) -> bool:
        """Whether not everything is encoded yet, or something that is gone is still held."""
        return self.index is not None and self._unfinished is not None

    def look_for_newer(self) -> None:
        """Open the newest state where not everything was there when it was looked last."""
        if self._unfinished is not None and stamp(self._folder) != self._unfinished.opened:
            self._index = None

    def allow(self, allowed: set[int] | None) -> set[int] | None:
        """Leave out documents that are gone, which an index that is behind may still hold."""
        if not self.is_partial or self._unfinished is None:
            return allowed
        live = self._unfinished.live
        return live if allowed is None else allowed & live

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents have no vector yet."""
        held, rows = self.index.rows(), self._store.rows(docids)
        known = np.isin([rows.get(docid, -1) for docid in docids], held).tolist()
        return frozenset(docid for docid, has in zip(docids, known, strict=True) if not has)

    def coverage(self, config: GlowConfig) -> Coverage | None:
        """Say how much is encoded; None where everything is."""
        held = self.index.num_vectors
        if self._unfinished is None:
            return None
        documents = self._store.num_documents
        if config.unit == "document":
            return Coverage(held, documents)
        if self._unfinished.num_units is None:
            counts = self._store.passage_counts()
            self._unfinished.num_units = count_units(counts, documents, config.fields)
        return Coverage(held, self._unfinished.num_units)

    def held(self, config: GlowConfig) -> HeldVectors:
        """Count what is encoded, and what is to be."""
        covered, documents = self.coverage(config), self._store.num_documents
        if covered is None:
            count = self.index.num_vectors
            return HeldVectors(documents, documents, Coverage(count, count))
        return HeldVectors(documents, round(self.held_share * documents), covered)

    def close(self) -> None:
        """Let go of the opened state."""
        self._index, self._unfinished = None, None

    def open_anew(self) -> DenseIndex:
        """Open the index of the configured model, to search it or to write to it."""
        if difference := self.find_difference():
            raise IndexMismatch(
                f"{self._folder} holds {difference}; run"
                f' "quoth encode {self._store.path.parent}" with the same settings to encode the'
                " documents again"
            )
        return DenseIndex.open(self._folder, model=self._identify(), config=self._config)

    def open_as_is(self) -> tuple[DenseIndex, DenseState]:
        """Open the index whichever model made it, to look at but not to search."""
        found = read_state(self._folder) or DenseState({}, self._config.storage)
        config = replace(self._config, storage=found.storage)
        return DenseIndex.open(self._folder, model=found.model, config=config), found

    def find_difference(self) -> str:
        """Say in what the vectors on disk differ from those that would be made now."""
        state, model = read_state(self._folder), self._identify()
        if state is None:
            return ""
        if state.storage != self._config.storage:
            return f"vectors as {state.storage}, but dense.storage is {self._config.storage}"
        was, now = state.model.get("name"), model.get("name")
        if was != now:
            return f"vectors of {was}, but {now} is configured"
        if state.model.get("digest") != model.get("digest"):
            return f"vectors of another model that was called {was}, too"
        return "" if state.model == model else f"vectors of {was} with other settings"
