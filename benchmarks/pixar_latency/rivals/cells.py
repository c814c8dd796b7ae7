"""Each vector looks its own list up: what centroid projection, Fast Vocabulary and L2S share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pixar_latency.rivals.config import RivalConfig
from quoth.models.pixar.shortlist.interface import Floats, Places, Shortlist, join_vectors
from quoth.models.pixar.shortlist.lists import Lists
from quoth.models.pixar.shortlist.rows import Rows


class CellShortlist(Shortlist):
    """Joins the lists of the cells that the pooled vector and the slots fall into."""

    def __init__(
        self,
        rows: Rows,
        config: RivalConfig,
        *,
        cells: Floats,  # (m, D)
        lists: Lists,
    ) -> None:
        super().__init__(rows, config)
        self._cells = cells
        self._lists = lists

    def choose(self, pooled: Floats, slots: Floats) -> Places:
        """Choose by the cell whose vector has the highest product with each vector."""
        found = (join_vectors(pooled, slots) @ self._cells.T).argmax(axis=1)
        whole = len(self.rows)  # how long lists are was decided when they were made
        return self._lists.join(np.unique(found).tolist(), num_rows=whole, length=whole)

    def own_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the cells and their lists."""
        return {"cells": self._cells, **self._lists.arrays()}
