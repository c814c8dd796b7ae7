"""How long each stage of a request takes: counts, sums, histograms and quantiles, by hand.

A stage keeps its last durations, of which quantiles are exact; counts, sums and histograms are of
all.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from quoth.server.monitoring.histogram import DurationCounter, Histogram

_KEPT = 2_048


def quantile(durations: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of values does not exceed.

    >>> quantile([4.0, 1.0, 3.0, 2.0], 0.5), quantile([4.0, 1.0, 3.0, 2.0], 0.95)
    (2.0, 4.0)
    """
    return sorted(durations)[max(0, math.ceil(share * len(durations)) - 1)]


@dataclass(frozen=True, slots=True)
class StageSummary:
    """What is known of one stage; times in seconds."""

    count: int
    total: float
    quantiles: tuple[float, float, float]


@dataclass(slots=True)
class _Stage:
    all: DurationCounter = field(default_factory=DurationCounter)
    last: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))


class StageTimes:
    """Durations of all stages, noted by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: dict[str, _Stage] = {}
        self._own = threading.local()

    def note(self, name: str, seconds: float) -> None:
        """Note that a stage took so long; also for the request that this thread works on."""
        with self._lock:
            stage = self._stages.get(name)
            if stage is None:
                stage = self._stages[name] = _Stage()
            stage.all.note(seconds)
            stage.last.append(seconds)
        own: dict[str, float] | None = getattr(self._own, "seconds", None)
        if own is not None:
            own[name] = own.get(name, 0.0) + seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note how long the block takes, however it ends."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.note(name, time.perf_counter() - begun)

    @contextmanager
    def of_one_request(self) -> Iterator[dict[str, float]]:
        """Yield what this thread notes while the block runs, by stage."""
        self._own.seconds = {}
        try:
            yield self._own.seconds
        finally:
            self._own.seconds = None

    def summaries(self) -> dict[str, StageSummary]:
        """Sum up every stage, by name."""
        with self._lock:
            copied = {
                name: (stage.all.histogram(), list(stage.last))
                for name, stage in sorted(self._stages.items())
            }
        return {
            name: StageSummary(
                found.count,
                found.total,
                (quantile(last, 0.5), quantile(last, 0.95), quantile(last, 0.99)),
            )
            for name, (found, last) in copied.items()
        }

    def histograms(self) -> dict[str, Histogram]:
        """Return the histogram of every stage, by name."""
        with self._lock:
            return {name: stage.all.histogram() for name, stage in sorted(self._stages.items())}
