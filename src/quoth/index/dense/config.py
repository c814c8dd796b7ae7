"""Settings of the dense index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, OneOf, Range, Share, Text

STORAGES = ("fp32", "fp16", "int8")
"""Precisions in which vectors can be stored."""


@dataclass(frozen=True, slots=True)
class DenseConfig(CheckedConfig, title="dense"):
    """Settings of the dense index."""

    encoder: Text = "all-MiniLM-L6-v2"
    """Model that computes the vectors: the bundled default, a folder, or a model on a hub."""

    storage: Annotated[str, OneOf(*STORAGES)] = "fp16"
    """Precision of the stored vectors: fp32, fp16 (half the disk space) or int8 (a quarter)."""

    exact_limit: AtLeastZero = 200_000
    """Search is exact up to this many vectors; above it, an HNSW graph finds the candidates."""

    hnsw_neighbours: Annotated[int, Range(2)] = 32
    """Links per vector in the HNSW graph; more raise recall and memory use."""

    hnsw_build_depth: AtLeastOne = 200
    """Candidates examined per link while the graph is built; more raise recall and build time."""

    hnsw_search_depth: AtLeastOne = 128
    """Candidates examined per query in the graph; more raise recall and latency."""

    compact_share: Share = 0.2
    """Rewrite the index once vectors of removed documents make up more than this share of it."""
