"""Who counts: the threads of this machine, or others that do the same elsewhere.

The work is the same functions on the same arrays wherever it is done, and what comes out does not
depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

_T = TypeVar("_T")
_R = TypeVar("_R")
Arrays = Sequence[NDArray[Any]]


class Workers(Protocol):
    """Do work on parts at the same time."""

    @property
    def count(self) -> int:
        """How many parts are worth making."""
        ...

    def map(
        self,
        work: Callable[..., _R],
        parts: Sequence[_T],
        *,
        kept: Arrays = (),
        shared: Arrays = (),
    ) -> list[_R]:
        """Return `work(part, *kept, *shared)` for each part, in order.

        Work changes none of its arrays. Those in `kept` are the same at every call, so whoever has
        to carry them carries them once.
        """
        ...


class Threads:
    """The threads of this process; work is compiled code, which runs side by side."""

    def __init__(self, count: int) -> None:
        self._count = count

    @property
    def count(self) -> int:
        """The number of threads."""
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
        with ThreadPoolExecutor(self._count) as pool:
            return list(pool.map(lambda part: work(part, *kept, *shared), parts))
