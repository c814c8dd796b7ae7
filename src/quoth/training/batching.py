"""Which pairs are trained on together: seeded, and without accidental positives.

A batch never holds the same document or the same query text twice, since each pair's document is a
negative of the other queries. The order is a function of the seed and the epoch alone, so that the
number of a batch is all there is to remember of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.errors import ConfigError

Rows = NDArray[np.int64]


class Batches:
    """An endless, seeded sequence of batches of pair rows; `batches[number]` is always the same."""

    def __init__(
        self,
        document_rows: NDArray[Any],  # (N,) which document each pair has
        query_keys: NDArray[Any],  # (N,) equal where query texts are equal
        *,
        batch_size: int,
        seed: int,
        lengths: NDArray[Any] | None = None,  # (N,) group pairs of like length
        group_batches: int = 16,
    ) -> None:
        """Batch pairs; with `lengths`, pairs are sorted within stretches of `group_batches`."""
        self._documents = np.asarray(document_rows)
        self._queries = np.asarray(query_keys)
        self._size = batch_size
        self._seed = seed
        self._lengths = lengths
        self._group = group_batches * batch_size
        self._starts = [0]  # number of the first batch of each epoch
        self._epoch = -1
        self._batches: list[Rows] = []
        if batch_size < 1 or not self._open(0):
            raise ConfigError(
                f"{len(self._documents):,} pairs do not fill one batch of {batch_size} without "
                "repeating a document or a query; lower the batch size"
            )

    def __getitem__(self, number: int) -> Rows:
        """Return the rows of a batch."""
        epoch = len(self._starts) - 2 if number >= self._starts[-1] else self._epoch_of(number)
        while number >= self._starts[epoch + 1]:
            epoch += 1
            self._open(epoch)
        if epoch != self._epoch:
            self._open(epoch)
        return self._batches[number - self._starts[epoch]]

    def _epoch_of(self, number: int) -> int:
        return int(np.searchsorted(self._starts, number, side="right")) - 1

    def _open(self, epoch: int) -> bool:
        """Arrange the batches of an epoch; say whether there are any."""
        chance = np.random.default_rng([self._seed, epoch])
        order = chance.permutation(len(self._documents))
        if self._lengths is not None:
            order = _group_by_length(order, self._lengths, self._group)
        batches = distinct_batches(order, (self._documents, self._queries), size=self._size)
        if self._lengths is not None:
            batches = [batches[at] for at in chance.permutation(len(batches))]
        self._epoch, self._batches = epoch, batches
        if epoch + 1 == len(self._starts):
            self._starts.append(self._starts[epoch] + len(batches))
        return bool(batches)


def distinct_batches(order: Rows, keys: Sequence[NDArray[Any]], *, size: int) -> list[Rows]:
    """Cut an order into full batches in which no key occurs twice; what clashes moves on.

    >>> order, key = np.arange(4), np.array([5, 5, 6, 7])
    >>> [rows.tolist() for rows in distinct_batches(order, [key], size=2)]
    [[0, 2], [1, 3]]
    """
    waiting: list[int] = []
    ahead = iter(order.tolist())
    own_keys = list(zip(*(key.tolist() for key in keys), strict=True))
    batches: list[Rows] = []
    while True:
        rows, waiting = _fill(waiting, ahead, own_keys, size)
        if len(rows) < size:
            return batches
        batches.append(np.array(rows, dtype=np.int64))


def _fill(
    waiting: list[int], ahead: Iterator[int], keys: Sequence[tuple[Any, ...]], size: int
) -> tuple[list[int], list[int]]:
    """Fill one batch from the pairs that wait, then from those ahead; give what must wait on."""
    rows: list[int] = []
    seen: set[tuple[int, Any]] = set()
    still_waiting: list[int] = []
    before = iter(waiting)
    for row in chain(before, ahead):
        own = list(enumerate(keys[row]))
        if seen.isdisjoint(own):
            rows.append(row)
            seen.update(own)
        else:
            still_waiting.append(row)
        if len(rows) == size:
            break
    return rows, [*still_waiting, *before]


def _group_by_length(order: Rows, lengths: NDArray[Any], stretch: int) -> Rows:
    pieces = [order[at : at + stretch] for at in range(0, len(order), stretch)]
    return np.concatenate([piece[np.argsort(lengths[piece], kind="stable")] for piece in pieces])
