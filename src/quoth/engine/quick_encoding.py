"""Give a small collection its vectors without being asked: where that takes less than a minute."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from quoth.engine.calibrating import (
    DEPTH_RERANKED,
    LEAST_RERANKED,
    NUM_QUERIES,
    NUM_RERANKED,
)
from quoth.engine.models import can_encode
from quoth.search.hybrid.calibration import Calibration

MOST_SECONDS = 60.0
_PASSAGES_PER_SECOND = 28.0
"""Of one core, by the embedded encoder (benchmarks/encode); a pair is read about as fast."""

_LOADING_SECONDS = 2.0


class CanEncode(Protocol):
    """An opened collection."""

    def status(self) -> dict[str, Any]:
        """Describe the collection."""
        ...

    def encode(self, *, seed: int = 0) -> Calibration:
        """Give every document its vectors."""
        ...


def encode_if_quick(engine: CanEncode) -> float | None:
    """Encode a collection that lacks vectors if that is quick; else return the seconds it takes.

    None says that nothing is left to do, or that it cannot be done here.
    """
    if not can_encode():
        return None
    status = engine.status()
    dense = status["indexes"].get("dense")
    if not status["documents"] or (dense is not None and not dense.get("unfinished")):
        return None
    seconds = remaining_seconds(status, cores=os.cpu_count() or 1)
    if seconds > MOST_SECONDS:
        return seconds
    engine.encode()
    return None


def remaining_seconds(status: Mapping[str, Any], *, cores: int) -> float:
    """Estimate how long encoding takes where some documents may have their vectors already."""
    documents, passages = int(status["documents"]), int(status["passages"])
    if not documents:
        return 0.0
    dense = status["indexes"].get("dense", {})
    held = int(dense.get("documents", 0)) / documents * passages
    if dense.get("unfinished"):  # some documents have no more than their opening
        held = min(int(dense["vectors"]), passages)
    whole = expected_seconds(documents, passages, cores=cores)
    return whole - held / (_PASSAGES_PER_SECOND * cores)


def expected_seconds(documents: int, passages: int, *, cores: int) -> float:
    """Estimate how long encoding takes, with the trial queries that calibrate it.

    For each of them a document is encoded once more, and the hits of some are read.

    >>> expected_seconds(1000, 1400, cores=2), expected_seconds(10, 10, cores=1)
    (52.357142857142854, 3.071428571428571)
    """
    trials = min(NUM_QUERIES, 2 * documents) * passages / documents
    pairs = NUM_RERANKED * DEPTH_RERANKED if documents >= LEAST_RERANKED else 0
    return _LOADING_SECONDS + (passages + trials + pairs) / (_PASSAGES_PER_SECOND * cores)
