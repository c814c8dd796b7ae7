"""The best rows of each vector, by scoring every row: what proposes phrases without any lists."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.models.pixar.shortlist.rows import Rows

Floats = NDArray[np.float32]

_ROWS_AT_ONCE = 4096  # their scores stay in a processor's own memory
_ROWS_PER_PART = 1 << 17


def top_rows(rows: Rows, vectors: Floats, *, depth: int) -> NDArray[np.int32]:  # (S, depth)
    """Find the places of the best rows of each vector (S, D), best first, ties by place."""
    depth = min(depth, len(rows))
    prepared = rows.prepare(vectors)

    def work(start: int, stop: int) -> tuple[Floats, NDArray[np.int32]]:
        best = np.full((len(vectors), depth), -np.inf, dtype=np.float32)
        places = np.full((len(vectors), depth), len(rows), dtype=np.int32)
        for first in range(start, stop, _ROWS_AT_ONCE):
            scores = rows.score_block(first, min(first + _ROWS_AT_ONCE, stop), prepared)
            offer(scores, first, best, places)
        return best, places

    parts = rows.run(work, len(rows), size=max(_ROWS_PER_PART, 4 * depth))
    scores = np.concatenate([part[0] for part in parts], axis=1)
    places = np.concatenate([part[1] for part in parts], axis=1)
    order = np.lexsort((places, -scores), axis=1)[:, :depth]  # whoever found them
    return np.take_along_axis(places, order, axis=1)


@njit(cache=True, nogil=True)
def offer(scores: Floats, first: int, best: Floats, places: NDArray[np.int32]) -> None:
    """Put a block's scores (N, S) on the heaps (S, depth) whose least is on top.

    Places ascend, so that one which equals the least of a heap does not belong there.
    """
    count = len(scores)
    for each in range(len(best)):
        heap, own = best[each], places[each]
        for at in range(count):
            score = scores[at, each]
            if score > heap[0]:
                _replace_least(heap, own, score, first + at)


@njit(cache=True, nogil=True)
def _replace_least(heap: Floats, places: NDArray[np.int32], score: float, place: int) -> None:
    """Let a score take the place of the least; of equal ones the last place is the least."""
    at, size = 0, len(heap)
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            heap[other] < heap[child]
            or (heap[other] == heap[child] and places[other] > places[child])
        ):
            child = other
        if score < heap[child] or (score == heap[child] and place > places[child]):
            break
        heap[at], places[at] = heap[child], places[child]
        at = child
    heap[at], places[at] = score, place
