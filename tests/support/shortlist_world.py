"""A head of phrases about twelve topics, and queries about them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

NUM_PHRASES, WIDTH, NUM_SLOTS = 700, 20, 3
_CHANCE = np.random.default_rng(0)
_TOPICS = 2 * _CHANCE.standard_normal((12, WIDTH), dtype=np.float32)
HEAD = _TOPICS[_CHANCE.integers(0, 12, NUM_PHRASES)] + _CHANCE.standard_normal(
    (NUM_PHRASES, WIDTH), dtype=np.float32
)
BIAS = _CHANCE.standard_normal(NUM_PHRASES, dtype=np.float32)


def _draw(count: int, seed: int) -> tuple[Floats, Floats]:  # (count, D), (count, S, D)
    chance = np.random.default_rng(seed)
    pooled = _TOPICS[chance.integers(0, 12, count)]
    slots = pooled[:, None] + chance.standard_normal((count, NUM_SLOTS, WIDTH), dtype=np.float32)
    return pooled + chance.standard_normal(pooled.shape, dtype=np.float32), slots


SAMPLES = _draw(60, 1)
QUERIES = list(zip(*_draw(5, 2), strict=True))


def union_of_best(depth: int, pooled: Floats, slots: Floats) -> list[int]:
    """List the phrases that score highest for one of a query's vectors."""
    scores = np.concatenate((pooled[None], slots)) @ HEAD.T + BIAS
    found: list[int] = np.unique(np.argsort(-scores, axis=1, kind="stable")[:, :depth]).tolist()
    return found
