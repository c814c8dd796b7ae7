"""Batches made before they are asked for, by other processes.

Putting a batch together takes a processor about as long as training on it takes a GPU. Batches are
a function of their number, so that it does not matter who makes them: the run is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from quoth.training.batching import Batches
from quoth.training.reading.groups import GroupBatch

Make = Callable[[NDArray[np.int64]], GroupBatch]


class MadeBatches(Batches):
    """Batches of which the last one asked for has been made, too."""

    def __init__(self, count: int, make: Make, *, size: int, seed: int, workers: int) -> None:
        """`make` turns places, of `count`, into a batch; 0 workers make it here."""
        each = np.arange(count)  # groups share nothing, so nothing clashes in a batch
        super().__init__(each, each, batch_size=size, seed=seed)
        self._make = make
        self._workers = workers
        self._coming: Iterator[GroupBatch] | None = None
        self._next = -1
        self.made: GroupBatch | None = None

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        """Return the places of a batch, and have it made."""
        rows = super().__getitem__(number)
        if not self._workers:
            self.made = self._make(rows)
            return rows
        if self._coming is None or number != self._next:
            self._coming = self._load(number)
        self._next = number + 1
        self.made = next(self._coming)
        return rows

    def _load(self, first: int) -> Iterator[GroupBatch]:
        loader: Any = DataLoader(
            _Numbered(self),
            batch_size=None,
            sampler=_CountFrom(first),
            num_workers=self._workers,
            multiprocessing_context="fork",
        )
        return iter(loader)

    def make(self, number: int) -> GroupBatch:
        """Make a batch."""
        return self._make(super().__getitem__(number))


class _CountFrom:
    """All numbers from one on."""

    def __init__(self, first: int) -> None:
        self._first = first

    def __iter__(self) -> Iterator[int]:
        number = self._first
        while True:
            yield number
            number += 1


class _Numbered(Dataset[GroupBatch]):
    """Batches by their number, as a worker makes them."""

    def __init__(self, batches: MadeBatches) -> None:
        self._batches = batches

    def __getitem__(self, number: int) -> GroupBatch:
        return self._batches.make(number)
