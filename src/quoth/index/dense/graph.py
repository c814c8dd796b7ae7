"""Approximate search through an HNSW graph (Malkov & Yashunin 2018), by FAISS.

The graph holds its own copy of the vectors in half precision. Built on one thread from FAISS's
fixed seed: the same adds, removes and builds with the same version of FAISS give the same graph;
another history gives another graph, which may miss other hits.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quoth.index.dense.approximate import (
    SELECTIVE,
    ApproximateIndex,
    Choice,
    Nodes,
    import_faiss,
    one_thread,
    write_faiss,
)
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.state import DenseState, GraphEntry
from quoth.index.dense.storage import Floats


class Graph(ApproximateIndex):
    """A saved graph, opened for reading."""

    def __init__(
        self, folder: Path, state: DenseState, places: Nodes, *, entry: GraphEntry
    ) -> None:
        self.entry: GraphEntry = entry
        super().__init__(folder, state, places)

    @property
    def most_later(self) -> int:
        """A tenth of its nodes: extending takes about a millisecond each."""
        return int(SELECTIVE * self.entry.num_nodes)

    @property
    def few(self) -> float:
        """A tenth of its nodes."""
        return SELECTIVE * self.entry.num_nodes

    def first_fetch(self, k: int, config: DenseConfig) -> int:
        """Four nodes for a row, as a row may have several units."""
        return 4 * k

    def nearest(
        self, query_vectors: Floats, fetch: int, *, choice: Choice, config: DenseConfig
    ) -> NDArray[np.int64]:
        """Walk the graph, deeper where fewer nodes are eligible."""
        faiss = import_faiss("searching through the graph")
        depth = int(max(config.hnsw_search_depth, fetch) / choice.share)
        parameters = {"efSearch": depth}
        if choice.bits is not None:
            parameters["sel"] = faiss.IDSelectorBitmap(choice.bits)
        _scores, nodes = self.index.search(
            query_vectors, fetch, params=faiss.SearchParametersHNSW(**parameters)
        )
        found: NDArray[np.int64] = nodes
        return found

    def is_as_configured(self, config: DenseConfig, num_vectors: int) -> bool:
        """Whether a graph is wanted, with these links."""
        links = self.entry.neighbours, self.entry.build_depth
        return config.wants("hnsw", num_vectors) and links == (
            config.hnsw_neighbours,
            config.hnsw_build_depth,
        )


def build_graph(
    path: Path,
    blocks: Iterable[Floats],
    *,
    width: int,
    neighbours: int,
    build_depth: int,
    extend: Path | None,
) -> None:
    """Write a graph of the vectors, or of those of another graph and the vectors."""
    faiss = import_faiss("building the graph")
    if extend is None:
        metric, half = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer.QT_fp16
        index = faiss.IndexHNSWSQ(width, half, neighbours, metric)
        index.hnsw.efConstruction = build_depth
    else:
        index = faiss.read_index(str(extend))
    with one_thread(faiss):
        for block in blocks:
            index.add(block)
    write_faiss(index, path)
