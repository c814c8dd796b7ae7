"""The head's rows as they are stored for scoring, and their products with vectors.

Rows may lie in another order than the phrases they stand for: phrases that are shortlisted together
are then read together. A `place` is where a row lies, a phrase id what it stands for. Where the
order is the phrases' own, no map is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from quoth.models.pixar.shortlist import kernel

Floats = NDArray[np.float32]
T = TypeVar("T")

STORAGES = ("float32", "bfloat16", "int8", "int4")
_DTYPES = {"float32": np.float32, "bfloat16": np.uint16, "int8": np.int8, "int4": np.uint8}
_LARGEST = {"int8": 127, "int4": 7}
_ENCODED_AT_ONCE = 1 << 16
_AT_ONCE = 2048  # rows; fewer are not worth a thread
_ALIGNMENT = 64  # bytes, so that no load crosses a line of memory


class Rows:
    """Rows in one of the storages, with scale and bias each, that several threads can score."""

    def __init__(
        self,
        codes: NDArray[Any],  # (V, columns)
        labels: Floats,  # (V, 2): scale and bias
        *,
        storage: str,
        width: int,
        order: NDArray[np.int32] | None = None,  # (V,) the phrase of each place
        threads: int = 1,
    ) -> None:
        self.codes = codes
        self.labels = labels
        self.storage = storage
        self.width = width
        self._order = order
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    @classmethod
    def store(
        cls,
        head: Tensor,  # (V, D)
        bias: Tensor,  # (V,)
        *,
        storage: str,
        order: NDArray[np.int32] | None = None,
        threads: int = 1,
    ) -> Rows:
        """Encode a head of any type and on any device, a block at a time."""
        count, width = head.shape
        columns = padded_width(width) // (2 if storage == "int4" else 1)
        codes = _empty((count, columns), _DTYPES[storage])
        labels = np.empty((count, 2), dtype=np.float32)
        for start in range(0, count, _ENCODED_AT_ONCE):
            stop = min(start + _ENCODED_AT_ONCE, count)
            chosen = slice(start, stop) if order is None else order[start:stop].astype(np.int64)
            codes[start:stop], labels[start:stop, 0] = encode(to_floats(head[chosen]), storage)
            labels[start:stop, 1] = to_floats(bias[chosen])
        return cls(codes, labels, storage=storage, width=width, order=order, threads=threads)

    def __len__(self) -> int:
        return len(self.codes)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return what the rows consist of, by name."""
        own = {"rows": self.codes, "labels": self.labels}
        return own if self._order is None else {**own, "order": self._order}

    def prepare(self, vectors: Floats) -> tuple[NDArray[Any], Floats]:
        """Bring vectors (S, D) into the form that products need, with the length of each.

        Whole numbers get vectors in int16, as fine as their sums allow in int32.
        """
        num_vectors, width = vectors.shape
        count = _round_up(num_vectors, kernel.VECTORS_AT_ONCE)
        padded = _empty((count, padded_width(width)), np.float32)
        padded[:] = 0.0
        padded[:num_vectors, :width] = vectors
        if self.storage not in _LARGEST:
            return padded, np.ones(count, dtype=np.float32)
        finest = (2**31 - 1) // (_LARGEST[self.storage] * padded.shape[1])
        lengths = np.abs(padded).max(axis=1) / np.float32(min(finest, 2**15 - 1))
        lengths = np.where(lengths > 0, lengths, 1).astype(np.float32)
        whole = _empty(padded.shape, np.int16)
        np.rint(padded / lengths[:, None], out=padded)
        whole[:] = padded
        return whole, lengths

    def score(
        self, places: NDArray[np.int32], vectors: Floats
    ) -> tuple[NDArray[np.int32], Floats]:  # (M,), (S, M)
        """Score the rows at some ascending places: the phrases, ascending, and their scores."""
        if self._order is None:
            phrase_ids = places
            positions = np.arange(len(places), dtype=np.int32)
        else:
            phrase_ids, positions = kernel.find_ranks(self._order[places], len(self))
        found = self._multiply(places, positions, vectors)
        scores = np.empty((len(vectors), len(places)), dtype=np.float32)
        self.run(lambda start, stop: kernel.transpose(found, scores, start, stop), len(places))
        return phrase_ids, scores

    def score_block(
        self, start: int, stop: int, vectors: tuple[NDArray[Any], Floats]
    ) -> Floats:  # (stop − start, S)
        """Score a stretch of places with vectors that are prepared, in the calling thread."""
        places = np.arange(start, stop, dtype=np.int32)
        scores = np.empty((len(places), len(vectors[0])), dtype=np.float32)
        kernel.score_rows(
            self.codes, self.labels, places, places - np.int32(start), *vectors, scores
        )
        return scores

    def run(self, work: Callable[[int, int], T], count: int, *, size: int = _AT_ONCE) -> list[T]:
        """Call `work(start, stop)` for stretches of `count` things; results in no order.

        Threads take stretch after stretch, so that one which is held up does not hold up all.
        """
        starts = iter(range(0, count, size))

        def take() -> list[T]:
            return [work(start, min(start + size, count)) for start in starts]

        if self._pool is None or count <= size:
            return take()
        others = [self._pool.submit(take) for _ in range(self.threads - 1)]
        own = take()
        return own + [result for other in others for result in other.result()]

    def _multiply(
        self, places: NDArray[np.int32], positions: NDArray[np.int32], vectors: Floats
    ) -> Floats:  # (M, S, filled up)
        prepared = self.prepare(vectors)
        scores = np.empty((len(places), len(prepared[0])), dtype=np.float32)

        def work(start: int, stop: int) -> None:
            own = slice(start, stop)
            kernel.score_rows(
                self.codes, self.labels, places[own], positions[own], *prepared, scores
            )

        self.run(work, len(places))
        return scores


def encode(rows: Floats, storage: str) -> tuple[NDArray[Any], Floats]:
    """Encode rows (N, D): their codes and their scales.

    >>> codes, scales = encode(np.float32([[127.0, -63.4, 0.0]]), "int8")
    >>> codes[0, :4].tolist(), scales.tolist()
    ([127, -63, 0, 0], [1.0])
    """
    count, width = rows.shape
    padded = np.zeros((count, padded_width(width)), dtype=np.float32)
    padded[:, :width] = rows
    if storage == "float32":
        return padded, np.ones(count, dtype=np.float32)
    if storage == "bfloat16":
        return to_bfloat16(padded), np.ones(count, dtype=np.float32)
    scales = np.abs(padded).max(axis=1, initial=0.0) / np.float32(_LARGEST[storage])
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    whole = np.rint(padded / scales[:, None]).astype(np.int8)
    if storage == "int8":
        return whole, scales
    low, high = np.split(whole.view(np.uint8), 2, axis=1)
    return (low & 15) | (high << 4), scales


def to_bfloat16(numbers: Floats) -> NDArray[np.uint16]:
    """Round to the nearest bfloat16, given as its bits.

    >>> to_bfloat16(np.float32([1.0, -2.0])).tolist() == [0x3F80, 0xC000]
    True
    """
    bits = numbers.view(np.uint32)
    return ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)


def to_floats(tensor: Tensor) -> Floats:
    """Return a tensor's numbers as an array in float32."""
    numbers: Floats = tensor.detach().float().cpu().numpy()
    return numbers


def _empty(shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    """Return an array, not yet filled, that begins where a line of memory begins."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    array: NDArray[Any] = memory[start : start + size].view(dtype).reshape(shape)
    return array


def padded_width(width: int) -> int:
    """Return the number of columns that rows of a width are filled up to."""
    return _round_up(width, kernel.COLUMNS_AT_ONCE)


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
