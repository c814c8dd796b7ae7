"""Raise the hits that are most like the best ones.

What is relevant to a query is often alike, and the best hits are often relevant. So their vectors
say something of what was meant that the query's own does not: pseudo-relevance feedback (Rocchio
1971), here over vectors that are stored anyway. The centre of the first few hits, the r-th with a
weight of 1/r, is compared with every hit that was read:

    score = mixed + weight · (cosine to the centre - the least such cosine)

The first hits are near their own centre, so a clear best hit stays where it is; what changes most
is the order below it. Nothing is searched for again, and no model reads anything. Where the first
hits are wrong, others like them are raised: who needs one right hit, as an answer does, asks for
none of this (`SearchRequest.feedback`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]


def likeness(
    docids: Sequence[str], scores: Sequence[float], vectors: Mapping[str, Floats], *, num_best: int
) -> list[float]:
    """Return each document's cosine to the centre of the best ones, by score and docid.

    Documents without a vector say nothing: they get the mean of the others, 0 where none has one.

    >>> import numpy as np
    >>> vectors = {"a": np.array([1.0, 0.0]), "b": np.array([0.0, 1.0]), "c": np.array([2.0, 0.0])}
    >>> likeness(["a", "b", "c", "d"], [3.0, 2.0, 1.0, 0.0], vectors, num_best=1)
    [1.0, 0.0, 1.0, 0.6666666666666666]
    """
    import numpy as np

    known = [at for at, docid in enumerate(docids) if docid in vectors]
    if not known:
        return [0.0] * len(docids)
    units = np.stack([np.asarray(vectors[docids[at]], dtype=np.float64) for at in known])
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-12)
    best = sorted(range(len(known)), key=lambda at: (-scores[known[at]], docids[known[at]]))
    best = best[:num_best]
    centre = sum(units[at] / rank for rank, at in enumerate(best, start=1))
    cosines = units @ (centre / max(float(np.linalg.norm(centre)), 1e-12))
    found = [float(cosines.mean())] * len(docids)
    for at, cosine in zip(known, cosines.tolist(), strict=True):
        found[at] = cosine
    return found
