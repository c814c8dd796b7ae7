"""Give a small collection its vectors without being asked: where that takes less than a minute."""

from __future__ import annotations

import functools
import os
import time
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

_PASSAGES_PER_GFLOP = 0.2
"""Of one core that multiplies too slowly for that rate, as measured on a Neoverse N1."""

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
    seconds = remaining_seconds(status, rate=passages_per_second())
    if seconds > MOST_SECONDS:
        return seconds
    engine.encode()
    return None


@functools.cache
def passages_per_second() -> float:
    """Estimate how many passages this machine encodes in a second, by how fast it multiplies.

    That is told by processor time, which other work on the machine changes least.
    """
    cores = os.cpu_count() or 1
    try:
        import numpy as np
    except ImportError:  # whoever encodes without it says what to install
        return _PASSAGES_PER_SECOND * cores
    states, matrix = np.ones((512, 384), np.float32), np.ones((384, 1536), np.float32)
    seconds = []
    for _time in range(5):
        begun = time.process_time()
        _product = states @ matrix
        seconds.append(time.process_time() - begun)
    gflops = 2e-9 * states.size * matrix.shape[1] / max(min(seconds), 1e-9)  # of one core
    return min(_PASSAGES_PER_SECOND, _PASSAGES_PER_GFLOP * gflops) * cores


def remaining_seconds(status: Mapping[str, Any], *, rate: float) -> float:
    """Estimate how long encoding takes where some documents may have their vectors already.

    `rate` is the number of passages that are encoded in a second.
    """
    documents, passages = int(status["documents"]), int(status["passages"])
    if not documents:
        return 0.0
    dense = status["indexes"].get("dense", {})
    held = int(dense.get("documents", 0)) / documents * passages
    if dense.get("unfinished"):  # some documents have no more than their opening
        held = min(int(dense["vectors"]), passages)
    return expected_seconds(documents, passages, rate=rate) - held / rate


def expected_seconds(documents: int, passages: int, *, rate: float) -> float:
    """Estimate how long encoding takes, with the trial queries that calibrate it.

    For each of them a document is encoded once more, and the hits of some are read.

    >>> expected_seconds(1000, 1400, rate=56), expected_seconds(10, 10, rate=28)
    (52.357142857142854, 3.071428571428571)
    """
    trials = min(NUM_QUERIES, 2 * documents) * passages / documents
    pairs = NUM_RERANKED * DEPTH_RERANKED if documents >= LEAST_RERANKED else 0
    return _LOADING_SECONDS + (passages + trials + pairs) / rate
