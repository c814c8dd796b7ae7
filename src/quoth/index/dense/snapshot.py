"""One state of a dense index, opened: its files mapped, what is live, and search over it."""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import require_uncut
from quoth.errors import Damaged
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.files import map_array
from quoth.index.dense.graph import SELECTIVE, Graph, open_graph, top_k_through_graph
from quoth.index.dense.rank import Found
from quoth.index.dense.scan import top_k_exact
from quoth.index.dense.state import DenseState, find_problems
from quoth.index.dense.storage import Floats
from quoth.index.dense.vectors import StoredVectors

_logger = logging.getLogger(__name__)

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
        return ~np.isin(self.vectors.rows, self._removed)

    @cached_property
    def rows(self) -> Rows:
        """Live rows, sorted."""
        return np.unique(self.vectors.rows[self.live])

    @property
    def removed(self) -> Rows:
        """Rows removed since the last compaction, sorted."""
        return self._removed

    @cached_property
    def graph(self) -> Graph | None:
        """The graph, None where there is none or it is damaged."""
        return open_graph(self.folder, self.state)

    def top_k(
        self, query_vectors: Floats, k: int, *, allowed: set[int] | None, config: DenseConfig
    ) -> list[list[Found]]:
        """Find the k best rows of each query, through the graph where the index is large."""
        require_uncut(self.folder, self._mapped)
        chosen = self._choose(allowed)
        if self.state.num_vectors > config.exact_limit:
            if self.graph is not None and self.graph.index is not None:
                depth = config.hnsw_search_depth
                return top_k_through_graph(
                    self.graph, self.vectors, chosen, query_vectors, k=k, depth=depth
                )
            _logger.debug("%s has no usable graph yet; searching exactly", self.folder)
        return top_k_exact(self.vectors, np.flatnonzero(chosen), query_vectors, k=k)

    def graph_is_due(self, config: DenseConfig) -> bool:
        """Whether a graph is wanted and none stands, or the one that stands has fallen behind."""
        if self.state.num_vectors <= config.exact_limit:
            return False
        if not self.graph_can_grow(config):
            return True
        return bool(self.later().size > SELECTIVE * self.state.num_vectors)

    def graph_can_grow(self, config: DenseConfig) -> bool:
        """Whether the graph is whole, built as configured, and most of its nodes are live."""
        graph = self.graph
        if graph is None or graph.is_damaged:
            return False
        settings = graph.entry.neighbours, graph.entry.build_depth
        if settings != (config.hnsw_neighbours, config.hnsw_build_depth):
            return False
        return bool(1 - graph.eligible(self.live).mean() <= config.compact_share)

    def later(self) -> Rows:
        """Live places that the graph does not cover."""
        covered = self.graph.covers if self.graph else np.zeros(len(self.vectors), dtype=bool)
        return np.flatnonzero(self.live & ~covered)

    def _choose(self, allowed: set[int] | None) -> Mask:
        """Which places may be found: live, and of an allowed row."""
        if allowed is None:
            return self.live
        rows = np.fromiter(allowed, dtype=np.int64, count=len(allowed))
        return self.live & np.isin(self.vectors.rows, rows)

    def _require_whole(self) -> None:
        """Compare sizes with those recorded; the graph can be built again, so it may be missing."""
        problems = find_problems(self.folder, self.state, self.state.needed_names)
        if problems:
            raise Damaged("; ".join(problems))

    def _map_removed(self) -> Rows:
        entry = self.state.removed
        if entry is None:
            return np.empty(0, dtype=np.int64)
        path, dtype = self.folder / entry.name, np.dtype("<i8")
        return map_array(path, self.state.files[path.name], dtype=dtype, shape=(entry.num_rows,))
