"""How near the vectors of documents are to a query's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NearUnits(NamedTuple):
    """What vectors tell of a document and a query."""

    vector: NDArray[Any]
    """The vector nearest to the query's."""

    cosines: Sequence[float]
    """The cosine of each of its vectors with the query's, in order of units."""


class Body(NamedTuple):
    """The field of a document that is cut into units, and the cosine of each with a query."""

    field: str
    cosines: Sequence[float]
