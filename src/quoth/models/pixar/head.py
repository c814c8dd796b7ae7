"""PIXAR's head as arrays: a row and a bias per phrase, then those of the end and of padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.errors import ConfigError
from quoth.models.pixar.config import PixarConfig

NUM_SYMBOLS = 2
"""Rows after the phrases: the end of an identifier, and padding."""


@dataclass(frozen=True, slots=True)
class HeadVectors:
    """Rows as vectors meet them, of unit length where that is configured; maybe memory-mapped."""

    rows: NDArray[Any]  # (P + 2, D) float32, or float16 where mapped
    bias: NDArray[np.float32]  # (P + 2,)

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.bias.shape != self.rows.shape[:1]:
            raise ConfigError(
                f"a head has rows {self.rows.shape} and biases {self.bias.shape}; expected a bias"
                " per row"
            )

    @property
    def num_phrases(self) -> int:
        """Phrases, without the end and padding."""
        return len(self.rows) - NUM_SYMBOLS

    @property
    def eos_id(self) -> int:
        """The row of the end of an identifier."""
        return self.num_phrases

    @property
    def pad_id(self) -> int:
        """The row of padding after the end."""
        return self.num_phrases + 1


def start_head(
    config: PixarConfig,
    *,
    num_phrases: int,
    width: int,
    seed: int,
    vectors: NDArray[np.float32] | None = None,  # (P, D)
    counts: NDArray[Any] | None = None,  # (P + 2,)
) -> HeadVectors:
    """Make an untrained head: rows from vectors of the phrases or by chance, biases from counts."""
    problems = []
    if (config.rows == "encoder") != (vectors is not None):
        problems.append(f"rows start from {config.rows}: give vectors for encoder, none for random")
    if vectors is not None and vectors.shape != (num_phrases, width):
        problems.append(f"vectors are {vectors.shape}, expected {(num_phrases, width)}")
    if config.bias == "unigram" and (counts is None or len(counts) != num_phrases + NUM_SYMBOLS):
        found = "none" if counts is None else f"{len(counts):,}"
        problems.append(f"{found} counts are given, expected {num_phrases + NUM_SYMBOLS:,}")
    if problems:
        raise ConfigError("pixar head: " + "; ".join(problems))
    chance = np.random.default_rng(seed)
    fresh = NUM_SYMBOLS if vectors is not None else num_phrases + NUM_SYMBOLS
    rows = chance.standard_normal((fresh, width), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if vectors is not None:
        rows = np.concatenate((vectors, rows))
    return HeadVectors(rows, start_bias(config.bias, size=len(rows), counts=counts))


def start_bias(
    kind: str, *, size: int, counts: NDArray[Any] | None = None
) -> NDArray[np.float32]:  # (P + 2,)
    """Return the biases at the start; each phrase counts once more than it was seen.

    >>> np.exp(start_bias("unigram", size=3, counts=np.array([2, 0, 3]))).tolist()
    [0.375, 0.125, 0.5]
    >>> np.exp(start_bias("uniform", size=4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if kind == "unigram" and counts is not None:
        seen = np.asarray(counts, dtype=np.float64) + 1
        logs: NDArray[np.float32] = np.log(seen / seen.sum()).astype(np.float32)
        return logs
    return np.full(size, -np.log(size) if kind == "uniform" else 0.0, dtype=np.float32)
