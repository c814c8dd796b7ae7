"""Approximate search through short codes: an inverted file with product quantisation, by FAISS.

For more vectors than memory holds (Jégou et al. 2011). Vectors lie in the list of their nearest
centroid, and what differs from it is coded by a byte per stretch of dimensions. Codes are all that
search keeps in memory; the best of them are scored again by the vectors on disk. Trained on a
sample, on one thread and from fixed seeds, so that the same work gives the same bytes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.index.dense.approximate import (
    SELECTIVE,
    ApproximateIndex,
    Choice,
    Nodes,
    import_faiss,
    one_thread,
)
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.state import CodesEntry, DenseState, TrainedEntry
from quoth.index.dense.storage import Floats

MOST_SCANNED = 20_000
"""So many vectors are scored exactly in the time that a search of the codes takes."""

MOST_SAMPLED = 160_000
"""Vectors that are read for training: a quarter of a gigabyte where they have 384 dimensions."""

GROWTH = 4
"""Centroids are trained anew once there are so many times the vectors they were trained for."""

_PER_CENTROID = 64
_VALUES = 256
_BITS = 8
_ROUNDS = 12

Bytes = NDArray[np.uint8]


class Codes(ApproximateIndex):
    """A saved index of codes, opened for reading."""

    def __init__(
        self, folder: Path, state: DenseState, places: Nodes, *, entry: CodesEntry
    ) -> None:
        self.entry: CodesEntry = entry
        super().__init__(folder, state, places)

    @property
    def most_later(self) -> int:
        """A tenth of its nodes, but no more than are quick to score."""
        return int(min(SELECTIVE * self.entry.num_nodes, MOST_SCANNED))

    @property
    def few(self) -> float:
        """A tenth of its nodes, but no more than are quick to score."""
        return min(SELECTIVE * self.entry.num_nodes, MOST_SCANNED)

    def first_fetch(self, k: int, config: DenseConfig) -> int:
        """As many as are to be scored again, and four for a row, which may have several units."""
        return max(config.ivfpq_rescored, 4 * k)

    def nearest(
        self, query_vectors: Floats, fetch: int, *, choice: Choice, config: DenseConfig
    ) -> NDArray[np.int64]:
        """Look through the nearest lists, more of them where fewer nodes are eligible."""
        faiss = import_faiss("searching through codes")
        lists = self.entry.trained.lists
        probes = max(config.ivfpq_probe_share * lists, config.ivfpq_least_probes)
        probes *= max(1.0, fetch / config.ivfpq_rescored) / choice.share
        parameters: dict[str, Any] = {"nprobe": min(lists, math.ceil(probes))}
        if choice.bits is not None:
            parameters["sel"] = faiss.IDSelectorBitmap(choice.bits)
        _scores, nodes = self.index.search(
            query_vectors, fetch, params=faiss.SearchParametersIVF(**parameters)
        )
        found: NDArray[np.int64] = nodes
        return found

    def is_as_configured(self, config: DenseConfig, num_vectors: int) -> bool:
        """Whether codes of this length are wanted, and not many more vectors came since."""
        return is_fit(self.entry.trained, config, num_vectors)


def is_fit(trained: TrainedEntry, config: DenseConfig, num_vectors: int) -> bool:
    """Whether these centroids are what so many vectors would be coded with."""
    return (
        config.wants("ivfpq", num_vectors)
        and trained.asked_bytes == config.ivfpq_bytes
        and num_vectors <= GROWTH * trained.num_vectors
    )


def num_lists(num_vectors: int) -> int:
    """How many lists to keep: about the root of the number of vectors, a power of two.

    >>> [num_lists(each) for each in (10_000, 75_000, 1_000_000, 10_000_000)]
    [128, 256, 1024, 4096]
    """
    return int(2 ** round(math.log2(math.sqrt(max(1, num_vectors)))))


def code_bytes(width: int, asked: int) -> int:
    """Length of a code: the largest that divides the width and is not longer than asked for.

    >>> code_bytes(384, 48), code_bytes(384, 50), code_bytes(7, 48), code_bytes(8, 3)
    (48, 48, 7, 2)
    """
    return next(each for each in range(min(asked, width), 0, -1) if width % each == 0)


def sample_size(lists: int) -> int:
    """How many vectors to train with."""
    return min(MOST_SAMPLED, _PER_CENTROID * max(lists, _VALUES))


def train(sample: Floats, *, lists: int, num_bytes: int) -> Any:
    """Learn the centroids of lists and codes from a sample; the index it returns is empty."""
    faiss = import_faiss("training codes")
    width = sample.shape[1]
    coarse, metric = faiss.IndexFlatIP(width), faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexIVFPQ(coarse, width, lists, num_bytes, _BITS, metric)
    for settings in (index.cp, index.pq.cp):
        settings.min_points_per_centroid = 1  # or FAISS writes to standard error
        settings.max_points_per_centroid = _PER_CENTROID
    index.pq.cp.niter = _ROUNDS
    with one_thread(faiss):
        index.train(sample)
    return index


def read_whole(path: Path) -> Any:
    """Read an index into memory, to encode with or to add to."""
    return import_faiss("building codes").read_index(str(path))


def encode(index: Any, vectors: Floats) -> Bytes:
    """Return list and code of each vector, (N, bytes)."""
    with one_thread(import_faiss("building codes")):
        found: Bytes = index.sa_encode(vectors)
    return found


def add_encoded(index: Any, codes: Bytes, nodes: NDArray[np.int64]) -> None:
    """Put encoded vectors into the lists."""
    with one_thread(import_faiss("building codes")):
        index.add_sa_codes(np.ascontiguousarray(codes), nodes)
