"""Settings of the rivals: the method, and the sizes of what it keeps."""

from __future__ import annotations

from dataclasses import dataclass

RIVALS = ("svd", "hire_low_rank", "hire_quantised", "projection", "fast_vocabulary", "l2s")


@dataclass(frozen=True, slots=True)
class RivalConfig:
    """Settings of a rival."""

    method: str
    """How phrases are chosen: by a cheap copy of the head (svd, hire_low_rank, hire_quantised), or
    from lists that each vector looks up (projection, fast_vocabulary, l2s)."""

    storage: str = "int8"
    """How rows are kept for exact scores: float32, bfloat16, or int8 with a scale per row."""

    num_centroids: int = 4096
    """Cells of the vectors."""

    list_length: int = 20_000
    """Phrases listed for each; with l2s the mean over queries' vectors."""

    depth: int = 100
    """Best phrases taken of each vector; fast_vocabulary and l2s: of each training vector."""

    window: int = 96
    """Columns of the cheap copy of svd and hire_low_rank; an eighth of the width is usual."""

    copy: str = "int4"
    """The cheap copy of hire_quantised: int8 or int4."""

    iterations: int = 20
    """Rounds of k-means; l2s: of its alternation as well, a fifth as many."""

    seed: int = 0
    """Decides where k-means starts."""

    def __post_init__(self) -> None:
        assert self.method in RIVALS
