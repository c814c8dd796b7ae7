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
    """Model that computes the vectors: the bundled default, a folder, or a model on a hub."""

    storage: Annotated[str, OneOf(*STORAGES)] = "fp16"
    """Precision of the stored vectors: fp32, fp16 (half the disk space) or int8 (a quarter)."""

    exact_limit: AtLeastZero = 200_000
    """Search is exact up to this many vectors; above it, `index` says what finds candidates."""

    index: Annotated[str, OneOf(*INDEXES)] = "auto"
    """What finds candidates above exact_limit: hnsw, a graph with the vectors in memory; ivfpq,
    codes in memory and vectors on disk; auto, hnsw up to hnsw_limit and ivfpq above it."""

    hnsw_limit: AtLeastZero = 1_000_000
    """With auto, the graph serves up to this many vectors (1 kB of memory each), codes above it."""

    hnsw_neighbours: Annotated[int, Range(2)] = 32
    """Links per vector in the HNSW graph; more raise recall and memory use."""

    hnsw_build_depth: AtLeastOne = 200
    """Candidates examined per link while the graph is built; more raise recall and build time."""

    hnsw_search_depth: AtLeastOne = 128
    """Candidates examined per query in the graph; more raise recall and latency."""

    ivfpq_bytes: AtLeastOne = 48
    """Bytes per code; more raise recall and memory use. Reduced to a divisor of the width."""

    ivfpq_probe_share: Share = 0.0625
    """Share of the lists of codes that a query scans; more raise recall and latency."""

    ivfpq_least_probes: AtLeastOne = 32
    """Lists that every query scans at least, whatever the share."""

    ivfpq_rescored: AtLeastOne = 200
    """Candidates per query whose vectors are read from disk and scored again."""

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
