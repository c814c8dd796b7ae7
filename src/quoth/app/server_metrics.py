"""What a server tells of itself: `/stats` for people, `/metrics` for Prometheus.

The text follows Prometheus' exposition format 0.0.4; label values are our own names, so nothing in
them needs escaping.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quoth.app.server_stages import QUANTILES, Stages

_STATM = Path("/proc/self/statm")
_PROBE = "/health/ready"  # whose 503 is an answer, not an error


class Metrics:
    """Counts requests and errors beside the durations of stages."""

    def __init__(self) -> None:
        self.stages = Stages()
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._begun = time.monotonic()

    def count(self, *, method: str, route: str, status: int) -> None:
        """Count one answered request by the route that took it, never by its path."""
        with self._lock:
            self._requests[method, route, status] += 1

    def stats(self, queue: Mapping[str, int]) -> dict[str, Any]:
        """Give what `/stats` says; times in seconds."""
        with self._lock:
            requests = Counter(self._requests)
        return {
            "stages": {
                name: dict(
                    zip(("count", "p50", "p95", "p99"), (s.count, *s.quantiles), strict=True)
                )
                for name, s in self.stages.summaries().items()
            },
            "queue": dict(queue),
            "memory_bytes": memory_bytes(),
            "uptime_seconds": time.monotonic() - self._begun,
            "requests": requests.total(),
            "errors": sum(
                number
                for (_method, route, status), number in requests.items()
                if status >= 500 and route != _PROBE
            ),
        }

    def exposition(self, queue: Mapping[str, int]) -> str:
        """Write everything for Prometheus."""
        return "\n".join(self._lines(queue)) + "\n"

    def _lines(self, queue: Mapping[str, int]) -> Iterator[str]:
        with self._lock:
            requests = sorted(self._requests.items())
        yield from _heading("quoth_requests_total", "counter", "Requests answered.")
        for (method, route, status), number in requests:
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"quoth_requests_total{{{labels}}} {number}"
        yield from _heading("quoth_stage_seconds", "summary", "Duration of each stage.")
        for name, stage in self.stages.summaries().items():
            for share, seconds in zip(QUANTILES, stage.quantiles, strict=True):
                yield f'quoth_stage_seconds{{stage="{name}",quantile="{share}"}} {seconds:.6g}'
            yield f'quoth_stage_seconds_sum{{stage="{name}"}} {stage.total:.6g}'
            yield f'quoth_stage_seconds_count{{stage="{name}"}} {stage.count}'
        yield from _heading("quoth_queue_length", "gauge", "Requests waiting for a worker.")
        yield f"quoth_queue_length {queue['length']}"
        yield from _heading("quoth_queue_capacity", "gauge", "Requests that may wait.")
        yield f"quoth_queue_capacity {queue['capacity']}"
        yield from _heading("quoth_memory_bytes", "gauge", "Resident memory.")
        yield f"quoth_memory_bytes {memory_bytes()}"
        yield from _heading("quoth_uptime_seconds", "gauge", "Time since the server was made.")
        yield f"quoth_uptime_seconds {time.monotonic() - self._begun:.3f}"


def memory_bytes() -> int:
    """Measure resident memory; its peak where the system does not tell the present."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _heading(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
