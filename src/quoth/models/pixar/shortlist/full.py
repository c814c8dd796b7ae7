"""Full softmax: every row is scored, and the best of each vector are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.interface import Floats, Places, Shortlist, join_vectors
from quoth.models.pixar.shortlist.rows import Rows
from quoth.models.pixar.shortlist.scan import top_rows


class FullShortlist(Shortlist):
    """Keeps the `depth` best phrases of the pooled vector and of each slot."""

    def choose(self, pooled: Floats, slots: Floats) -> Places:
        """Choose what scores highest, looking at all rows."""
        vectors = join_vectors(pooled, slots)
        return np.unique(top_rows(self.rows, vectors, depth=self.config.depth))

    def own_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return nothing: there is nothing but the rows."""
        return {}


def build_full(
    head: Tensor,  # (V, D)
    bias: Tensor,  # (V,)
    *,
    config: ShortlistConfig,
    threads: int = 1,
) -> FullShortlist:
    """Store the rows of a head as they come."""
    rows = Rows.store(head, bias, storage=config.storage, threads=threads)
    return FullShortlist(rows, config)
