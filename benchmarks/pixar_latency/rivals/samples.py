"""Vectors of training queries, from which some rivals learn what queries are like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quoth.models.pixar.shortlist.interface import Floats


@dataclass(frozen=True, slots=True)
class Samples:
    """The vectors of N queries."""

    pooled: Floats  # (N, D)
    slots: Floats  # (N, S, D)

    def flat(self) -> Floats:  # (N · (S + 1), D)
        """Return all vectors alike, pooled ones first."""
        return np.concatenate((self.pooled, self.slots.reshape(-1, self.slots.shape[-1])))
