"""How much is read when the reranker is fitted to a collection, on which kind of device."""

from __future__ import annotations

from dataclasses import dataclass

_QUERIES = 16  # of a step
_HITS = 20  # of a query that rerankers are judged by


@dataclass(frozen=True, slots=True)
class FittingSizes:
    """How much of what was found is read when the reranker is fitted and judged."""

    near: int
    """Documents of the first 20 that a query's own is told from."""

    far: int
    """Documents of the 30 after them."""

    subwords: int
    """Most of a query and a passage together."""

    judged: int
    """Held-out queries of each of two kinds that both rerankers are judged by."""

    @property
    def num_fitted(self) -> int:
        """Passages that a step reads."""
        return _QUERIES * (1 + self.near + self.far)

    @property
    def num_judged(self) -> int:
        """Passages that both rerankers read to be judged."""
        return 2 * 2 * self.judged * _HITS


FITTING_SIZES = {"cpu": FittingSizes(4, 2, 128, 120), "cuda": FittingSizes(6, 3, 192, 150)}
