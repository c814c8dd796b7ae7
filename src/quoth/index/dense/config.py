"""Settings of the dense index."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

STORAGES = ("fp32", "fp16", "int8")
"""Precisions in which vectors can be stored."""


@dataclass(frozen=True, slots=True)
class DenseConfig:
    """Settings of the dense index."""

    encoder: str = "all-MiniLM-L6-v2"
    """Model that makes the vectors: the embedded default, a folder, or a hub's name."""

    storage: str = "fp16"
    """Precision of the stored vectors: fp32, fp16 (half the disk) or int8 (a quarter)."""

    exact_limit: int = 200_000
    """Up to this many vectors every search is exact; beyond, an HNSW graph finds the candidates."""

    hnsw_neighbours: int = 32
    """Links per vector in the graph: more find more, and take more memory."""

    hnsw_build_depth: int = 200
    """Candidates looked at for each link while the graph is built: more find more, built slower."""

    hnsw_search_depth: int = 128
    """Candidates looked at for each query in the graph: more find more, slower."""

    compact_share: float = 0.2
    """Rewrite the index once vectors of removed documents make up more than this share of it."""

    def __post_init__(self) -> None:
        problems = []
        if self.storage not in STORAGES:
            problems.append(f'storage is "{self.storage}", expected one of {", ".join(STORAGES)}')
        if self.exact_limit < 0:
            problems.append(f"exact_limit is {self.exact_limit}, expected 0 or more")
        for name, least in (("neighbours", 2), ("build_depth", 1), ("search_depth", 1)):
            if getattr(self, f"hnsw_{name}") < least:
                found = getattr(self, f"hnsw_{name}")
                problems.append(f"hnsw_{name} is {found}, expected {least} or more")
        if not 0 <= self.compact_share <= 1:
            problems.append(f"compact_share is {self.compact_share}, expected 0 to 1")
        if problems:
            raise ConfigError(f"dense: {'; '.join(problems)}")
