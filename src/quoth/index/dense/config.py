"""Settings of the dense index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, OneOf, Range, Share, Text

STORAGES = ("fp32", "fp16", "int8")
"""Precisions in which vectors can be stored."""

INDEXES = ("auto", "hnsw", "ivfpq")
"""What can find candidates among many vectors, and the choice by their number."""

LEAST_CODED = 10_000
"""Fewer vectors are searched exactly rather than through codes, which need as many to train."""


@dataclass(frozen=True, slots=True)
class DenseConfig(CheckedConfig, title="dense"):
    """Settings of the dense index."""

    encoder: Text = "all-MiniLM-L6-v2"
    """Model that makes the vectors: the embedded default, a folder, or a hub's name."""

    storage: Annotated[str, OneOf(*STORAGES)] = "fp16"
    """Precision of the stored vectors: fp32, fp16 (half the disk) or int8 (a quarter)."""

    exact_limit: AtLeastZero = 200_000
    """Up to this many vectors every search is exact; beyond, `index` says what finds candidates."""

    index: Annotated[str, OneOf(*INDEXES)] = "auto"
    """What finds candidates beyond exact_limit: hnsw, a graph with the vectors in memory; ivfpq,
    codes in memory and vectors on disk; auto, hnsw up to hnsw_limit and ivfpq beyond."""

    hnsw_limit: AtLeastZero = 1_000_000
    """Up to this many vectors auto takes a graph, a kilobyte of memory each; beyond, codes."""

    hnsw_neighbours: Annotated[int, Range(2)] = 32
    """Links per vector in the graph: more find more, and take more memory."""

    hnsw_build_depth: AtLeastOne = 200
    """Candidates looked at for each link while the graph is built: more find more, built slower."""

    hnsw_search_depth: AtLeastOne = 128
    """Candidates looked at for each query in the graph: more find more, slower."""

    ivfpq_bytes: AtLeastOne = 48
    """Bytes of a code: more find more, and take more memory; cut to a divisor of the width."""

    ivfpq_probe_share: Share = 0.0625
    """Share of the lists of codes that a query looks through: more find more, slower."""

    ivfpq_least_probes: AtLeastOne = 32
    """Lists that a query looks through at least: in a small collection a share of them is few."""

    ivfpq_rescored: AtLeastOne = 200
    """Candidates whose vectors are read from disk for each query and scored again."""

    compact_share: Share = 0.2
    """Rewrite the index once vectors of removed documents make up more than this share of it."""

    def choose_index(self, num_vectors: int) -> str:
        """Say how so many vectors are searched.

        >>> [DenseConfig().choose_index(each) for each in (200_000, 200_001, 2_000_000)]
        ['exact', 'hnsw', 'ivfpq']
        """
        is_small = num_vectors <= self.exact_limit
        return "exact" if is_small else self.choose_approximate(num_vectors)

    def choose_approximate(self, num_vectors: int) -> str:
        """Say what is built for so many vectors, whether or not they are enough to be worth it."""
        by_size = "hnsw" if num_vectors <= self.hnsw_limit else "ivfpq"
        chosen = by_size if self.index == "auto" else self.index
        return "exact" if chosen == "ivfpq" and num_vectors < LEAST_CODED else chosen

    def wants(self, index: str, num_vectors: int) -> bool:
        """Whether an index that stands is as wanted; codes may stay down to half of the limit."""
        twice = self.index == "auto" and index == "ivfpq"
        return index == self.choose_approximate(2 * num_vectors if twice else num_vectors)
