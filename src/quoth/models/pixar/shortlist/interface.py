"""What every shortlist takes and gives, however it finds its phrases.

A query comes as its pooled vector x₀ and its slot vectors x₁ … x_S. The shortlist chooses some of
the head's rows and scores each of them for the pooled vector and for every slot: x · w + bias,
exactly, but for the rounding of the rows' storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.errors import ConfigError
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.rows import Rows

Floats = NDArray[np.float32]
Places = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Shortlisted:
    """The phrases kept for one query, with their scores."""

    phrase_ids: NDArray[np.int32]  # (M,), ascending
    slot_scores: Floats  # (S, M)
    pooled_scores: Floats  # (M,)


class Shortlist(ABC):
    """Chooses phrases by the vectors of a query, and scores them."""

    def __init__(self, rows: Rows, config: ShortlistConfig) -> None:
        self.rows = rows
        self.config = config

    @abstractmethod
    def choose(self, pooled: Floats, slots: Floats) -> Places:
        """Choose rows for a query with vectors (D,) and (S, D): their places, ascending."""

    @abstractmethod
    def own_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return what the shortlist consists of besides its rows, by name."""

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return all arrays that must be saved, by name."""
        return {**self.rows.arrays(), **self.own_arrays()}

    def shortlist(self, pooled: Floats, slots: Floats) -> Shortlisted:
        """Choose phrases for one query with vectors (D,) and (S, D), and score them."""
        return self.score(self.choose(pooled, slots), pooled, slots=slots)

    def score(self, places: Places, pooled: Floats, *, slots: Floats) -> Shortlisted:
        """Score the rows at some ascending places."""
        vectors = join_vectors(pooled, slots)
        if vectors.shape[1] != self.rows.width:
            raise ConfigError(
                f"vectors have length {vectors.shape[1]}, but the shortlist was built for a head"
                f" of width {self.rows.width}; build it anew for this model"
            )
        phrase_ids, scores = self.rows.score(places, vectors)
        return Shortlisted(phrase_ids, scores[1:], scores[0])


def join_vectors(pooled: Floats, slots: Floats) -> Floats:  # (S + 1, D)
    """Put a query's vectors together, the pooled one first."""
    return np.concatenate((pooled[None], slots))
