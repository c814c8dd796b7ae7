"""A cheap copy of the head proposes, the rows decide: what SVD-softmax and HiRE have in common.

The copy has its own rows, for which vectors may have to be projected first. Its best rows of each
vector are scored exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pixar_latency.rivals.config import RivalConfig
from quoth.models.pixar.shortlist.interface import Floats, Places, Shortlist, join_vectors
from quoth.models.pixar.shortlist.rows import Rows
from quoth.models.pixar.shortlist.scan import top_rows


class PreviewShortlist(Shortlist):
    """Keeps what a copy finds best for the pooled vector and for each slot, `depth` each."""

    def __init__(
        self,
        rows: Rows,
        config: RivalConfig,
        *,
        copy: Rows,
        projection: Floats | None = None,  # (D, window)
    ) -> None:
        super().__init__(rows, config)
        self._copy = copy
        self._projection = projection

    def choose(self, pooled: Floats, slots: Floats) -> Places:
        """Choose what scores highest in the copy."""
        vectors = join_vectors(pooled, slots)
        if self._projection is not None:
            vectors = vectors @ self._projection
        return np.unique(top_rows(self._copy, vectors, depth=self.config.depth))

    def own_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the copy and what projects vectors for it."""
        own = {f"copy_{name}": array for name, array in self._copy.arrays().items()}
        return own if self._projection is None else {**own, "projection": self._projection}
