"""How much a phrase says: the rarer it is among identifiers, the more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def rarities(uses: NDArray[Any]) -> NDArray[np.float32]:  # (P,)
    """Weigh each phrase by −log of its share of all uses, one more being added to each.

    Training with bags and searching by them both go by these weights.

    >>> np.exp(-rarities(np.array([2, 0]))).round(6).tolist()  # 3/4 and 1/4
    [0.75, 0.25]
    """
    seen = np.asarray(uses, dtype=np.float64) + 1.0
    weights: NDArray[np.float32] = (math.log(seen.sum()) - np.log(seen)).astype(np.float32)
    return weights
