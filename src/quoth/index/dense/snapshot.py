"""One state of a dense index, opened: its files mapped, what is live, and search over it."""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import require_uncut
from quoth.errors import Damaged
from quoth.index.dense.approximate import ApproximateIndex, Choice, open_places, top_k_through
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.files import map_array
from quoth.index.dense.graph import Graph
from quoth.index.dense.ivfpq import Codes
from quoth.index.dense.rank import Found
from quoth.index.dense.scan import top_k_exact
from quoth.index.dense.state import DenseState, GraphEntry, find_problems
from quoth.index.dense.storage import Floats
from quoth.index.dense.vectors import Places, StoredVectors

_logger = logging.getLogger(__name__)

_FEW_ROWS = 200
"""So few rows are all scored: they and their vectors are found without a look at others."""

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


class DenseSnapshot:
    """An opened state; it never changes, and stays readable after a writer replaced it."""

    def __init__(self, folder: Path, state: DenseState) -> None:
        self.folder = folder
        self.state = state
        self._mapped = {name: state.files[name] for name in state.needed_names}
        self._require_whole()
        self.vectors = StoredVectors(folder, state)
        self._removed = self._map_removed()

    @cached_property
    def live(self) -> Mask:
        """Which places hold a vector of a row that was not removed."""
        if not len(self._removed):  # spares reading the row of every place
            return np.ones(len(self.vectors), dtype=bool)
        return ~np.isin(self.vectors.rows, self._removed)

    @cached_property
    def rows(self) -> Rows:
        """Live rows, sorted."""
        return np.unique(self.vectors.rows[self.live])

    def live_places(self, rows: Rows) -> Places:
        """Find the places of the live vectors of some rows."""
        places = self.vectors.places_of(rows)
        return places[self.live[places]]

    @property
    def removed(self) -> Rows:
        """Rows removed since the last compaction, sorted."""
        return self._removed

    @cached_property
    def approximate(self) -> ApproximateIndex | None:
        """The graph or the codes, None where there are none or they are damaged."""
        entry = self.state.graph or self.state.codes
        places = open_places(self.folder, self.state, entry) if entry else None
        if entry is None or places is None:
            return None
        if isinstance(entry, GraphEntry):
            return Graph(self.folder, self.state, places, entry=entry)
        return Codes(self.folder, self.state, places, entry=entry)

    def top_k(
        self, query_vectors: Floats, k: int, *, allowed: set[int] | None, config: DenseConfig
    ) -> list[list[Found]]:
        """Find the k best rows of each query, approximately where the index is large."""
        require_uncut(self.folder, self._mapped)
        if allowed is not None and len(allowed) <= _FEW_ROWS:
            rows = np.fromiter(allowed, dtype=np.int64, count=len(allowed))
            return top_k_exact(self.vectors, self.live_places(rows), query_vectors, k=k)
        chosen = self._choose(allowed)
        if config.choose_index(self.state.num_vectors) != "exact":
            finder = self.approximate
            if finder is not None and finder.index is not None:
                choice = self._live_choice if allowed is None else finder.choose(chosen)
                return top_k_through(
                    finder, self.vectors, chosen, query_vectors, choice=choice, k=k, config=config
                )
            _logger.debug("%s has no usable graph or codes yet; searching exactly", self.folder)
        return top_k_exact(self.vectors, np.flatnonzero(chosen), query_vectors, k=k)

    def approximate_is_due(self, config: DenseConfig) -> bool:
        """Whether a graph or codes are wanted, and none stand or those have fallen behind."""
        if config.choose_index(self.state.num_vectors) == "exact":
            return False
        finder = self.approximate
        if finder is None or self.state.build is not None or not self._fits(finder, config):
            return True
        return self.later(finder).size > finder.most_later

    def growing(self, config: DenseConfig) -> ApproximateIndex | None:
        """Return the graph or the codes, if new vectors can be added to them."""
        finder = self.approximate
        if finder is None or not self._fits(finder, config) or finder.index is None:
            return None
        return finder

    def _fits(self, finder: ApproximateIndex, config: DenseConfig) -> bool:
        """Whether an index is whole, built as configured, and most of its nodes are live."""
        if finder.is_damaged or not finder.is_as_configured(config, self.state.num_vectors):
            return False
        return 1 - finder.live_share(self.live) <= config.compact_share

    def later(self, finder: ApproximateIndex | None) -> Rows:
        """Live places that an index does not cover."""
        return np.flatnonzero(self.live if finder is None else self.live & ~finder.covers)

    @cached_property
    def _live_choice(self) -> Choice:
        """What a search without a filter may find; every such search asks for it."""
        assert self.approximate is not None
        return self.approximate.choose(self.live)

    def _choose(self, allowed: set[int] | None) -> Mask:
        """Which places may be found: live, and of an allowed row."""
        if allowed is None:
            return self.live
        rows = np.fromiter(allowed, dtype=np.int64, count=len(allowed))
        mask = np.zeros(len(self.vectors), dtype=bool)
        mask[self.live_places(rows)] = True
        return mask

    def _require_whole(self) -> None:
        """Compare sizes with those recorded; graph and codes can be built again."""
        problems = find_problems(self.folder, self.state, self.state.needed_names)
        if problems:
            raise Damaged("; ".join(problems))

    def _map_removed(self) -> Rows:
        entry = self.state.removed
        if entry is None:
            return np.empty(0, dtype=np.int64)
        path, dtype = self.folder / entry.name, np.dtype("<i8")
        return map_array(path, self.state.files[path.name], dtype=dtype, shape=(entry.num_rows,))
