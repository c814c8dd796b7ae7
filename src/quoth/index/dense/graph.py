"""Approximate search through an HNSW graph (Malkov & Yashunin 2018), by FAISS.

The graph only finds candidates: it holds its own copy in half precision, and what it finds is
scored from the segments, so a hit has the same score whichever way it was found. Nodes are tied to
segments by their places. Built on one thread from FAISS's fixed seed: the same adds, removes and
builds with the same version of FAISS give the same graph; another history gives another graph,
which may miss other hits.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import seal_file
from quoth.errors import MissingExtra
from quoth.index.dense.files import map_array
from quoth.index.dense.rank import Found, merge_top_k
from quoth.index.dense.scan import rank_places, top_k_exact
from quoth.index.dense.state import DenseState, GraphEntry, find_problems
from quoth.index.dense.storage import Floats
from quoth.index.dense.vectors import StoredVectors
from quoth.open_files import out_of_files, says_out_of_files

SELECTIVE = 0.1
"""Below this share of eligible nodes, scoring them all beats walking past the others."""

_logger = logging.getLogger(__name__)

Mask = NDArray[np.bool_]


class Graph:
    """A saved graph, opened for reading."""

    def __init__(self, folder: Path, state: DenseState, entry: GraphEntry) -> None:
        self.entry = entry
        self._path = folder / entry.name
        self._seal = state.files[entry.name]
        path = folder / entry.places_name
        mapped = map_array(
            path, state.files[path.name], dtype=np.dtype("<i8"), shape=(entry.num_nodes,)
        )
        self.places: NDArray[np.int64] = mapped
        self._num_places = state.num_places
        self.is_damaged = False
        """Whether using it has failed; only that reads the whole file."""

    @cached_property
    def covers(self) -> Mask:
        """Which places have a node."""
        covered = np.zeros(self._num_places, dtype=bool)
        covered[self.places[self.places >= 0]] = True
        return covered

    def eligible(self, chosen: Mask) -> Mask:
        """Which nodes stand for a chosen place."""
        return (self.places >= 0) & chosen[self.places]

    @cached_property
    def index(self) -> Any:
        """FAISS's view of the graph, mapped on first use; None where it cannot be used.

        A flipped bit could crash the process inside FAISS, so the file is hashed first.
        """
        try:
            faiss = import_faiss("searching through the graph")
            if seal_file(self._path) == self._seal:
                return faiss.read_index(str(self._path), faiss.IO_FLAG_MMAP_IFC)
            problem = "it was altered"
        except MissingExtra as error:
            _logger.warning("%s", error)
            return None
        except (OSError, RuntimeError) as error:
            if says_out_of_files(error):
                raise out_of_files(self._path) from error
            problem = str(error)
        _logger.warning("%s cannot be used, searching without it: %s", self._path, problem)
        self.is_damaged = True
        return None

    def nearest(
        self, query_vectors: Floats, fetch: int, *, eligible: Mask, depth: int
    ) -> NDArray[np.int64]:
        """Find up to `fetch` eligible nodes per query, (B, fetch), -1 where there are fewer."""
        faiss = import_faiss("searching through the graph")
        share = float(eligible.mean())
        parameters = {"efSearch": int(max(depth, fetch) / share)}
        if share < 1:
            bits = np.packbits(eligible, bitorder="little")
            parameters["sel"] = faiss.IDSelectorBitmap(bits)
        _scores, nodes = self.index.search(
            query_vectors, fetch, params=faiss.SearchParametersHNSW(**parameters)
        )
        found: NDArray[np.int64] = nodes
        return found


def open_graph(folder: Path, state: DenseState) -> Graph | None:
    """Open the recorded graph, None where there is none or its files cannot be trusted."""
    if state.graph is None:
        return None
    places = folder / state.graph.places_name
    problems = list(find_problems(folder, state, state.graph_names))
    if not problems and seal_file(places) != state.files[places.name]:
        problems.append(f"{places} was altered: its checksum differs from the one recorded")
    if problems:
        _logger.warning("searching without the graph: %s", "; ".join(problems))
        return None
    return Graph(folder, state, state.graph)


def top_k_through_graph(
    graph: Graph, vectors: StoredVectors, chosen: Mask, query_vectors: Floats, *, k: int, depth: int
) -> list[list[Found]]:
    """Find about the k best rows of each query among the chosen places, never fewer than exist.

    What was added after the graph was built is searched exactly, and so is everything where few
    nodes are eligible.
    """
    eligible = graph.eligible(chosen)
    if eligible.sum() < SELECTIVE * len(eligible):
        return top_k_exact(vectors, np.flatnonzero(chosen), query_vectors, k=k)
    near = _top_k_of_nodes(graph, vectors, eligible, query_vectors, k=k, depth=depth)
    later = np.flatnonzero(chosen & ~graph.covers)
    rest = top_k_exact(vectors, later, query_vectors, k=k)
    return [merge_top_k(each, k=k) for each in zip(near, rest, strict=True)]


def _top_k_of_nodes(
    graph: Graph,
    vectors: StoredVectors,
    eligible: Mask,
    query_vectors: Floats,
    *,
    k: int,
    depth: int,
) -> list[list[Found]]:
    """Fetch more and more nodes until each query has k rows; score all where that is too many."""
    found: list[list[Found]] = [[] for _ in query_vectors]
    short, fetch = np.arange(len(query_vectors)), 4 * k
    while len(short) and fetch <= SELECTIVE * eligible.sum():
        nodes = graph.nearest(query_vectors[short], fetch, eligible=eligible, depth=depth)
        for at, each in zip(short, nodes, strict=True):
            places = np.sort(graph.places[each[each >= 0]])
            found[at] = rank_places(vectors, places, query_vectors[at], k=k)
        short = np.array([at for at in short if len(found[at]) < k], dtype=np.intp)
        fetch *= 4
    if len(short):
        places = np.sort(graph.places[eligible])
        exact = top_k_exact(vectors, places, query_vectors[short], k=k)
        for at, each in zip(short, exact, strict=True):
            found[at] = each
    return found


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
    with _one_thread(faiss):
        for block in blocks:
            index.add(block)
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # how FAISS reports a failed write
        raise OSError(str(error)) from error


@contextlib.contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """Build in order; OpenMP keeps this number per calling thread, so no one else is slowed."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def import_faiss(purpose: str) -> Any:
    """Import FAISS, which the core install lacks."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtra(
            f'{purpose} needs faiss, which is not installed; run: pip install "quoth[neural]"'
        ) from error
    return faiss
