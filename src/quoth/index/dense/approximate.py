"""Approximate search: a file of FAISS's finds candidates, the stored vectors score them.

A hit has the same score whichever way it was found. What an index is made of are nodes, tied to
stored vectors by their places. Two kinds: a graph (graph.py) and short codes (ivfpq.py). What was
added after one was built is searched exactly, and so is everything where few nodes are eligible.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import seal_file
from quoth.errors import MissingExtra
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.files import map_array
from quoth.index.dense.rank import Found, merge_top_k
from quoth.index.dense.scan import rank_places, top_k_exact
from quoth.index.dense.state import (
    BuildEntry,
    CodesEntry,
    DenseState,
    GraphEntry,
    find_problems,
)
from quoth.index.dense.storage import Floats
from quoth.index.dense.vectors import Places, StoredVectors
from quoth.open_files import out_of_files, says_out_of_files

SELECTIVE = 0.1
"""Below this share of eligible nodes, scoring them all beats walking past the others."""

_logger = logging.getLogger(__name__)

PLACE = np.dtype("<i8")

Mask = NDArray[np.bool_]
Nodes = NDArray[np.int64]
"""The place of each node, -1 where compaction dropped it."""


class Choice(NamedTuple):
    """Which nodes a search may find, and which places it has to score besides."""

    num_nodes: int
    share: float
    bits: NDArray[np.uint8] | None
    """A bit per node, None where all are eligible."""

    later: Places


class ApproximateIndex(ABC):
    """A saved index of FAISS's over the stored vectors, opened for reading."""

    entry: GraphEntry | CodesEntry

    def __init__(self, folder: Path, state: DenseState, places: Nodes) -> None:
        self.places = places
        self._path = folder / self.entry.name
        self._seal = state.files[self.entry.name]
        self._num_places = state.num_places
        self.is_damaged = False
        """Whether using it has failed; only that reads the whole file."""

    @property
    @abstractmethod
    def most_later(self) -> int:
        """How many vectors may wait to be taken in, and be searched exactly."""

    @property
    @abstractmethod
    def few(self) -> float:
        """Below so many eligible nodes, scoring them all is quicker."""

    @abstractmethod
    def first_fetch(self, k: int, config: DenseConfig) -> int:
        """How many nodes to ask for to find k rows."""

    @abstractmethod
    def nearest(
        self, query_vectors: Floats, fetch: int, *, choice: Choice, config: DenseConfig
    ) -> NDArray[np.int64]:
        """Find up to `fetch` eligible nodes per query, (B, fetch), -1 where there are fewer."""

    @abstractmethod
    def is_as_configured(self, config: DenseConfig, num_vectors: int) -> bool:
        """Whether an index of so many vectors would be built this way now."""

    @cached_property
    def covers(self) -> Mask:
        """Which places have a node."""
        covered = np.zeros(self._num_places, dtype=bool)
        covered[self.places[self.places >= 0]] = True
        return covered

    def live_share(self, live: Mask) -> float:
        """Share of the nodes whose vector is live."""
        return float(self._eligible(live).mean())

    def choose(self, chosen: Mask) -> Choice:
        """Translate places that may be found into nodes."""
        eligible = self._eligible(chosen)
        count = int(eligible.sum())
        bits = None if count == len(eligible) else np.packbits(eligible, bitorder="little")
        later = np.flatnonzero(chosen & ~self.covers)
        return Choice(count, count / len(eligible), bits, later)

    @cached_property
    def index(self) -> Any:
        """FAISS's view of the file, mapped on first use; None where it cannot be used.

        A flipped bit could crash the process inside FAISS, so the file is hashed first.
        """
        try:
            faiss = import_faiss("approximate search")
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

    def _eligible(self, chosen: Mask) -> Mask:
        """Which nodes stand for a chosen place."""
        return (self.places >= 0) & chosen[self.places]


def open_places(
    folder: Path, state: DenseState, entry: GraphEntry | CodesEntry | BuildEntry
) -> Nodes | None:
    """Map the place of each node of an index, None where its files are not as recorded.

    Its own file is hashed when it is first used.
    """
    path = folder / entry.places_name
    problems = list(find_problems(folder, state, entry.names))
    if not problems and seal_file(path) != state.files[path.name]:
        problems.append(f"{path} was altered: its checksum differs from the one recorded")
    if problems:
        _logger.warning("searching exactly: %s", "; ".join(problems))
        return None
    return map_array(path, state.files[path.name], dtype=PLACE, shape=(entry.num_nodes,))


def top_k_through(
    finder: ApproximateIndex,
    vectors: StoredVectors,
    chosen: Mask,
    query_vectors: Floats,
    *,
    choice: Choice,
    k: int,
    config: DenseConfig,
) -> list[list[Found]]:
    """Find about the k best rows of each query among the chosen places, never fewer than exist."""
    if choice.num_nodes < finder.few:
        return top_k_exact(vectors, np.flatnonzero(chosen), query_vectors, k=k)
    found: list[list[Found]] = [[] for _ in query_vectors]
    short, fetch = np.arange(len(query_vectors)), finder.first_fetch(k, config)
    while len(short) and fetch <= SELECTIVE * choice.num_nodes:
        nodes = finder.nearest(query_vectors[short], fetch, choice=choice, config=config)
        for at, each in zip(short, nodes, strict=True):
            places = np.sort(finder.places[each[each >= 0]])
            found[at] = rank_places(vectors, places, query_vectors[at], k=k)
        short = np.array([at for at in short if len(found[at]) < k], dtype=np.intp)
        fetch *= 4
    if len(short):  # too many to be asked for: score all
        places = np.flatnonzero(chosen & finder.covers)
        exact = top_k_exact(vectors, places, query_vectors[short], k=k)
        for at, each in zip(short, exact, strict=True):
            found[at] = each
    rest = top_k_exact(vectors, choice.later, query_vectors, k=k)
    return [merge_top_k(each, k=k) for each in zip(found, rest, strict=True)]


def write_faiss(index: Any, path: Path) -> None:
    """Write an index of FAISS's, whose failures are not those of Python's files."""
    try:
        import_faiss("approximate search").write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(str(error)) from error


@contextlib.contextmanager
def one_thread(faiss: Any) -> Iterator[None]:
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
