"""What a server counts: every sample can be read back, and clients cannot make more of them."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from quoth import __version__
from quoth.errors import ConfigError, ShardDown
from quoth.server.errors import Overloaded
from quoth.server.monitoring import resources
from quoth.server.monitoring.exposition import CONTENT_TYPE, sample
from quoth.server.monitoring.histogram import BOUNDS
from quoth.server.monitoring.metrics import MAX_ROUTES, METHODS, Metrics, PoolState, ServerState
from quoth.server.monitoring.timings import StageTimes
from quoth.settings.server import ServerConfig

SEARCH = PoolState("search", length=3, capacity=64, workers=4, busy=4, refused=7)
WRITE = PoolState("write", length=1, capacity=16, workers=1, busy=0, refused=0)
STATE = ServerState((SEARCH, WRITE), is_ready=True, connections=12)


def _samples(text: str) -> list[Sample]:
    """Read an exposition; each family stands once, with help and a type, and no sample twice."""
    families = list(text_string_to_metric_families(text))
    names = [each.name for each in families]
    assert len(names) == len(set(names)) and text.endswith("\n")
    assert all(each.documentation and each.type != "unknown" for each in families)
    samples = [each for family in families for each in family.samples]
    keys = [(each.name, tuple(sorted(each.labels.items()))) for each in samples]
    assert (
        len(keys)
        == len(set(keys))
        == sum(not line.startswith("#") for line in text.split("\n")[:-1])
    )
    return samples


def _value(text: str, name: str, **labels: str) -> float:
    (found,) = (each for each in _samples(text) if (each.name, each.labels) == (name, labels))
    return float(found.value)


def _searched(
    metrics: Metrics, *, seconds: float = 0.01, status: int = 200, kind: str = ""
) -> None:
    metrics.count(method="POST", route="/search", status=status, seconds=seconds, kind=kind)


# Requests --------------------------------------------------------------------------------------


def test_requests_are_counted_by_method_route_and_status() -> None:
    metrics = Metrics()
    _searched(metrics)
    _searched(metrics)
    _searched(metrics, status=503)
    text = metrics.exposition(STATE)
    labels = {"method": "POST", "route": "/search"}
    assert _value(text, "quoth_requests_total", **labels, status="200") == 2
    assert _value(text, "quoth_requests_total", **labels, status="503") == 1
    assert _value(text, "quoth_request_seconds_count", **labels, status_class="2xx") == 2
    assert _value(text, "quoth_request_seconds_count", **labels, status_class="5xx") == 1


def test_made_up_methods_make_no_series() -> None:
    metrics = Metrics()
    for number in range(500):
        method = "".join(chr(65 + int(digit)) for digit in str(number)) + "X"
        metrics.count(method=method, route="/search", status=405, seconds=0.001)
    for method in METHODS:
        metrics.count(method=method, route="/search", status=405, seconds=0.001)
    samples = _samples(metrics.exposition(STATE))
    counted = [each for each in samples if each.name == "quoth_requests_total"]
    assert {each.labels["method"] for each in counted} == {*METHODS, "other"}
    assert sum(each.value for each in counted) == 500 + len(METHODS)
    assert len(samples) < 300


def test_made_up_routes_and_kinds_make_few_series() -> None:
    metrics = Metrics()
    for number in range(1_000):
        metrics.count(
            method="GET", route=f"/{number}", status=404, seconds=0.0, kind=f"Kind{number}"
        )
    metrics.count(method="GET", route="", status=404, seconds=0.0)
    samples = _samples(metrics.exposition(STATE))
    routes = {each.labels["route"] for each in samples if "route" in each.labels}
    assert len(routes) == MAX_ROUTES + 1 and "other" in routes and "" not in routes
    kinds = {each.labels["kind"]: each.value for each in samples if "kind" in each.labels}
    assert kinds == {"other": 1_000}


def test_errors_are_counted_by_kind_and_not_for_the_probe() -> None:
    metrics = Metrics()
    for kind in (ShardDown.__name__, Overloaded.__name__, Overloaded.__name__, "InternalError"):
        _searched(metrics, status=503, kind=kind)
    metrics.count(method="GET", route="/health/ready", status=503, seconds=0.0, kind="NotReady")
    kinds = {
        each.labels["kind"]: each.value
        for each in _samples(metrics.exposition(STATE))
        if each.name == "quoth_errors_total"
    }
    assert kinds == {"ShardDown": 1, "Overloaded": 2, "InternalError": 1}
    assert metrics.stats(STATE)["errors"] == 4


def test_threads_count_together() -> None:
    metrics = Metrics()
    threads = [
        threading.Thread(target=lambda: [_searched(metrics, seconds=0.5) for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = {"method": "POST", "route": "/search", "status_class": "2xx"}
    text = metrics.exposition(STATE)
    assert _value(text, "quoth_request_seconds_count", **labels) == 2_000
    assert _value(text, "quoth_request_seconds_sum", **labels) == 1_000.0


# Histograms ------------------------------------------------------------------------------------


def _buckets(text: str, stage: str) -> Iterator[tuple[float, float]]:
    for each in _samples(text):
        if each.name == "quoth_stage_seconds_bucket" and each.labels["stage"] == stage:
            yield float(each.labels["le"]), each.value


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    metrics = Metrics()
    durations = [0.0, 0.0005, 0.001, 0.0011, 0.25, 0.3, 119.9, 120.0, 121.0]
    for seconds in durations:
        metrics.stages.note("search lexical", seconds)
    text = metrics.exposition(STATE)
    bounds = (*BOUNDS, math.inf)
    assert list(_buckets(text, "search lexical")) == [
        (bound, sum(each <= bound for each in durations)) for bound in bounds
    ]
    assert _value(text, "quoth_stage_seconds_count", stage="search lexical") == len(durations)
    found = _value(text, "quoth_stage_seconds_sum", stage="search lexical")
    assert found == pytest.approx(sum(durations))
    assert BOUNDS[0] == 0.001 and BOUNDS[-1] == 120.0 and list(BOUNDS) == sorted(BOUNDS)


def test_a_large_sum_still_grows_by_small_steps() -> None:
    metrics = Metrics()
    metrics.stages.note("answer", 1_234_567.0)
    before = _value(metrics.exposition(STATE), "quoth_stage_seconds_sum", stage="answer")
    metrics.stages.note("answer", 0.25)
    after = _value(metrics.exposition(STATE), "quoth_stage_seconds_sum", stage="answer")
    assert (before, after) == (1_234_567.0, 1_234_567.25)


def test_stages_keep_exact_quantiles_of_recent_durations_beside_the_histogram() -> None:
    stages = StageTimes()
    for number in range(5_000):
        stages.note("search", float(number))
    found = stages.summaries()["search"]
    kept = range(5_000 - 2_048, 5_000)
    assert found.count == 5_000 and found.total == sum(range(5_000))
    assert found.quantiles[0] == kept[1_023] and found.quantiles[2] == kept[2_027]
    assert stages.histograms()["search"].count == 5_000


# The state of the server -----------------------------------------------------------------------


def test_each_pool_is_told_apart() -> None:
    text = Metrics().exposition(STATE)
    for pool in (SEARCH, WRITE):
        assert _value(text, "quoth_queue_length", pool=pool.name) == pool.length
        assert _value(text, "quoth_queue_capacity", pool=pool.name) == pool.capacity
        assert _value(text, "quoth_workers", pool=pool.name) == pool.workers
        assert _value(text, "quoth_workers_busy", pool=pool.name) == pool.busy
        assert _value(text, "quoth_refused_total", pool=pool.name) == pool.refused


def test_the_process_is_described() -> None:
    text = Metrics().exposition(STATE)
    assert _value(text, "quoth_ready") == 1
    assert _value(text, "quoth_connections") == 12
    assert _value(text, "quoth_build_info", version=__version__) == 1
    assert _value(text, "quoth_memory_bytes") > 1_000_000
    assert 0 <= _value(text, "quoth_uptime_seconds") < 3_600
    starting = Metrics().exposition(ServerState((), is_ready=False, connections=None))
    assert _value(starting, "quoth_ready") == 0
    assert "quoth_connections" not in starting and "quoth_queue_length" not in starting


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell")
def test_open_descriptors_are_counted() -> None:
    before = _value(Metrics().exposition(STATE), "quoth_open_descriptors")
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    text = Metrics().exposition(STATE)
    for each in opened:
        os.close(each)
    assert _value(text, "quoth_open_descriptors") == before + 5
    limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert _value(text, "quoth_max_descriptors") == limit


def test_descriptors_are_left_out_where_the_system_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resources, "_DESCRIPTORS", tmp_path / "none")
    monkeypatch.setattr(resources, "_STATM", tmp_path / "none")
    text = Metrics().exposition(STATE)
    assert "descriptors" not in text and _value(text, "quoth_memory_bytes") > 1_000_000


def test_metrics_are_told_where_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    text = Metrics().exposition(STATE)
    limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert _value(text, "quoth_open_descriptors") == limit
    assert _value(text, "quoth_memory_bytes") > 1_000_000


def test_stats_sum_up_the_queues_and_tell_of_each_pool() -> None:
    metrics = Metrics()
    _searched(metrics, seconds=0.25)
    _searched(metrics, seconds=0.5, status=500, kind="InternalError")
    stats = metrics.stats(STATE)
    assert stats["queue"] == {"length": 4, "capacity": 80}
    pool = stats["pools"]["search"]
    assert pool == {"length": 3, "capacity": 64, "workers": 4, "busy": 4, "refused": 7}
    assert stats["stages"]["request"] == {"count": 2, "p50": 0.25, "p95": 0.5, "p99": 0.5}
    assert (stats["requests"], stats["errors"], stats["ready"]) == (2, 1, True)
    assert json.loads(json.dumps(stats)) == stats


# The format ------------------------------------------------------------------------------------


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    name = 'a "stage"\\ of\nmine é \ud800'
    metrics.stages.note(name, 1.0)
    text = metrics.exposition(STATE)
    text.encode()
    expected = name.replace("\ud800", "\\ud800")
    assert _value(text, "quoth_stage_seconds_count", stage=expected) == 1
    assert sample("owls", 1, {"wood": "\n"}) == r'owls{wood="\n"} 1'
    assert "version=0.0.4" in CONTENT_TYPE


def test_the_log_format_is_checked() -> None:
    assert ServerConfig().log_format == "text" and ServerConfig(log_format="json")
    with pytest.raises(ConfigError, match="log_format is 'xml', expected text or json"):
        ServerConfig(log_format="xml")
