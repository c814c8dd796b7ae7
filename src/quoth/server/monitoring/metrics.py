"""What a server tells of itself: `/stats` for people, `/metrics` for Prometheus.

Labels take few values whatever clients send, since every combination is kept as long as the server
runs: methods and kinds of error come from fixed sets, routes are those of the application.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from quoth import __version__
from quoth.errors import QuothError
from quoth.server.errors import RequestError
from quoth.server.monitoring.exposition import family, histogram_samples, sample
from quoth.server.monitoring.histogram import NO_DURATIONS, DurationCounter, Histogram
from quoth.server.monitoring.resources import max_descriptors, memory_bytes, open_descriptors
from quoth.server.monitoring.timings import StageTimes

OTHER = "other"
"""The label of what belongs to no fixed set."""

METHODS = frozenset(("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"))
MAX_ROUTES = 100

_PROBE = "/health/ready"  # whose 503 is an answer, not an error
_FRAMEWORK_KINDS = (
    *("InternalError", "ValidationError", "HTTPError", "BadRequest"),
    *("MethodNotAllowed", "UnsupportedMediaType"),
)
_POOL_FAMILIES = (
    ("quoth_queue_length", "gauge", "Requests that wait for a worker.", "length"),
    ("quoth_queue_capacity", "gauge", "Requests that may wait.", "capacity"),
    ("quoth_workers", "gauge", "Workers.", "workers"),
    ("quoth_workers_busy", "gauge", "Workers that work now.", "busy"),
    ("quoth_refused_total", "counter", "Requests refused as too many waited.", "refused"),
)


@dataclass(frozen=True, slots=True)
class PoolState:
    """What one pool of workers does now; `refused` counts from the start."""

    name: str
    length: int
    capacity: int
    workers: int
    busy: int
    refused: int


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a server does now; `connections` is None where nobody counts them."""

    pools: tuple[PoolState, ...]
    is_ready: bool
    connections: int | None


@dataclass(frozen=True, slots=True)
class _Counted:
    """A copy of all counts, taken at one moment."""

    requests: Counter[tuple[str, str, int]]  # by method, route, status
    errors: Counter[str]  # by kind
    durations: dict[tuple[str, str, str], Histogram]  # by method, route, class of status


class Metrics:
    """Counts requests, their durations and errors, beside the durations of stages."""

    def __init__(self) -> None:
        self.stages = StageTimes()
        self._lock = threading.Lock()
        self._kinds = frozenset((*_FRAMEWORK_KINDS, *_names(QuothError), *_names(RequestError)))
        self._routes: set[str] = set()
        self._answered: dict[tuple[str, str, int, str], DurationCounter] = {}
        self._begun = time.monotonic()

    def count(
        self, *, method: str, route: str, status: int, seconds: float, kind: str = ""
    ) -> None:
        """Count one answered request by the route that took it, never by its path.

        `kind` is the kind of the error it was answered with, if any; `seconds` is noted as the
        stage "request" as well. Status 0 is a request that was never answered.
        """
        method = method if method in METHODS else OTHER
        kind = kind if not kind or kind in self._kinds else OTHER
        with self._lock:
            key = method, self._known_route(route), status, kind
            durations = self._answered.get(key)
            if durations is None:
                durations = self._answered[key] = DurationCounter()
            durations.note(seconds)
        self.stages.note("request", seconds)

    def stats(self, state: ServerState) -> dict[str, Any]:
        """Return what `/stats` says; times in seconds."""
        requests = self._copy().requests
        return {
            "ready": state.is_ready,
            "stages": {
                name: dict(
                    zip(("count", "p50", "p95", "p99"), (s.count, *s.quantiles), strict=True)
                )
                for name, s in self.stages.summaries().items()
            },
            "queue": {
                "length": sum(pool.length for pool in state.pools),
                "capacity": sum(pool.capacity for pool in state.pools),
            },
            "pools": {pool.name: _without_name(pool) for pool in state.pools},
            "memory_bytes": memory_bytes(),
            "uptime_seconds": time.monotonic() - self._begun,
            "requests": requests.total(),
            "errors": sum(
                number
                for (_method, route, status), number in requests.items()
                if status >= 500 and route != _PROBE
            ),
        }

    def exposition(self, state: ServerState) -> str:
        """Write everything for Prometheus."""
        counted = self._copy()
        lines = (
            *_request_lines(counted),
            *_stage_lines(self.stages.histograms()),
            *_pool_lines(state.pools),
            *_server_lines(state, uptime_seconds=time.monotonic() - self._begun),
        )
        return "\n".join(lines) + "\n"

    def _known_route(self, route: str) -> str:
        """Return the route's label: applications have few, so many would be a mistake."""
        if route in self._routes:
            return route
        if not route or len(self._routes) >= MAX_ROUTES:
            return OTHER
        self._routes.add(route)
        return route

    def _copy(self) -> _Counted:
        with self._lock:
            answered = {key: counter.histogram() for key, counter in self._answered.items()}
        counted = _Counted(Counter(), Counter(), {})
        for (method, route, status, kind), found in answered.items():
            counted.requests[method, route, status] += found.count
            if kind and route != _PROBE:
                counted.errors[kind] += found.count
            key = method, route, status_class(status)
            counted.durations[key] = found + counted.durations.get(key, NO_DURATIONS)
        return counted


def status_class(status: int) -> str:
    """Return the class of an HTTP status.

    >>> status_class(404), status_class(0)
    ('4xx', 'other')
    """
    return f"{status // 100}xx" if 100 <= status <= 599 else OTHER


def _names(root: type[Exception]) -> Iterator[str]:
    """Yield the name of a class and of all that derive from it."""
    yield root.__name__
    for each in root.__subclasses__():
        yield from _names(each)


def _without_name(pool: PoolState) -> dict[str, int]:
    return {key: value for key, value in asdict(pool).items() if key != "name"}


def _request_lines(counted: _Counted) -> Iterator[str]:
    name = "quoth_requests_total"
    numbers = (
        sample(name, number, {"method": method, "route": route, "status": str(status)})
        for (method, route, status), number in sorted(counted.requests.items())
    )
    yield from family(name, "counter", "Requests answered.", numbers)
    name = "quoth_request_seconds"
    durations = (
        line
        for (method, route, status), found in sorted(counted.durations.items())
        for line in histogram_samples(
            name, {"method": method, "route": route, "status_class": status}, found
        )
    )
    yield from family(name, "histogram", "Duration of requests.", durations)
    name = "quoth_errors_total"
    errors = (sample(name, counted.errors[kind], {"kind": kind}) for kind in sorted(counted.errors))
    yield from family(name, "counter", "Requests answered with an error.", errors)


def _stage_lines(histograms: dict[str, Histogram]) -> Iterator[str]:
    name = "quoth_stage_seconds"
    lines = (
        line
        for stage, found in histograms.items()
        for line in histogram_samples(name, {"stage": stage}, found)
    )
    yield from family(name, "histogram", "Duration of each stage.", lines)


def _pool_lines(pools: tuple[PoolState, ...]) -> Iterator[str]:
    for name, kind, about, key in _POOL_FAMILIES:
        samples = (sample(name, getattr(pool, key), {"pool": pool.name}) for pool in pools)
        yield from family(name, kind, about, samples)


def _server_lines(state: ServerState, *, uptime_seconds: float) -> Iterator[str]:
    build = sample("quoth_build_info", 1, {"version": __version__})
    yield from family("quoth_build_info", "gauge", "The version that runs.", [build])
    gauges = (
        ("quoth_ready", "Whether models are loaded.", int(state.is_ready)),
        ("quoth_connections", "Connections open now.", state.connections),
        ("quoth_open_descriptors", "Files and connections open now.", open_descriptors()),
        ("quoth_max_descriptors", "Files and connections that may be open.", max_descriptors()),
        ("quoth_memory_bytes", "Resident memory.", memory_bytes()),
        ("quoth_uptime_seconds", "Time since the server was made.", round(uptime_seconds, 3)),
    )
    for name, about, value in gauges:
        samples = [] if value is None else [sample(name, value)]
        yield from family(name, "gauge", about, samples)
