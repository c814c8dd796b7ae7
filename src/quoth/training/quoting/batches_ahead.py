"""Make the next batches while the present one is learnt, in a thread or in processes.

Drawing phrases is Python's work: beside a GPU that is quicker than it, several processes draw. A
batch follows from its number alone, so it does not matter who makes it.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import torch

from quoth.training.quoting.batches import BatchMaker, DynamicBatch

_own: list[BatchMaker] = []  # of a process that makes batches


class BatchesAhead:
    """Batches in their order, some of them begun before they are asked for."""

    def __init__(self, maker: BatchMaker, *, workers: int = 0) -> None:
        """`workers` are processes, 0 for one thread."""
        self._depth = max(1, 2 * workers)
        self._begun: dict[int, Future[DynamicBatch]] = {}
        self._pool: Executor
        if workers:  # forked, so that the set is not copied
            context = get_context("fork")
            self._pool = ProcessPoolExecutor(workers, context, _take_maker, (maker,))
        else:
            self._pool = ThreadPoolExecutor(1)
        self._make = _make if workers else maker.__getitem__

    def take(self, number: int) -> DynamicBatch:
        """Return a batch, and begin with those after it."""
        wanted = range(number, number + 1 + self._depth)
        self._begun = {each: self._begun[each] for each in wanted if each in self._begun}
        for each in wanted:
            if each not in self._begun:
                self._begun[each] = self._pool.submit(self._make, each)
        return self._begun[number].result()

    def close(self) -> None:
        """Let the workers go."""
        self._pool.shutdown(cancel_futures=True)


def _take_maker(maker: BatchMaker) -> None:
    torch.set_num_threads(1)
    _own[:] = [maker]


def _make(number: int) -> DynamicBatch:
    return _own[0][number]
