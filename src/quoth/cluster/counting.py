"""Count and cut phrases on all machines: the arrays lie in Ray's object store, parts are tasks.

A part that is lost with its machine is counted again elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from quoth.cluster.connecting import load_ray
from quoth.cluster.failing import plain_errors
from quoth.cluster.mapping import count_processors
from quoth.vocabulary.phrases.workers import Arrays

_T = TypeVar("_T")
_R = TypeVar("_R")


class ClusterWorkers:
    """All processors of the cluster that is joined, for `vocabulary.phrase_workers.Workers`."""

    def __init__(self) -> None:
        self._ray = load_ray()
        self._count = count_processors()
        self._kept: dict[int, tuple[NDArray[Any], Any]] = {}

    @property
    def count(self) -> int:
        """The number of processors when the counting began."""
        return self._count

    def map(
        self,
        work: Callable[..., _R],
        parts: Sequence[_T],
        *,
        kept: Arrays = (),
        shared: Arrays = (),
    ) -> list[_R]:
        """Return `work(part, *kept, *shared)` for each part, in order."""
        arrays = [self._keep(array) for array in kept] + [self._ray.put(array) for array in shared]
        task = self._ray.remote(num_cpus=1, max_retries=-1)(work)
        with plain_errors():
            found: list[_R] = self._ray.get([task.remote(part, *arrays) for part in parts])
        return found

    def _keep(self, array: NDArray[Any]) -> Any:
        """Carry an array once; it is held on to, so that its number stays its own."""
        if id(array) not in self._kept:
            self._kept[id(array)] = (array, self._ray.put(array))
        return self._kept[id(array)][1]
