"""Capacity on paper: what larger collections would need, computed from committed results.

Every coefficient is a straight line through few measured points. docs/scale.md prints them and says
how far to trust what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

PER_SHARD = 10_000_000
_MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Capacity:
    """A model of what a sharded collection needs; sizes in bytes, times in seconds."""

    build: float
    """To add one passage and index it, one core."""

    disk: float
    """Per passage: documents, BM25 index, statistics."""

    process: float
    """Memory of a shard's process before its first passage."""

    memory: float
    """Further memory per passage of the shard."""

    ask: float
    """Fixed part of a search through Ray: the question to a shard, and the merge."""

    fan_out: float
    """Further time per shard asked, at the router."""

    search: float
    """Further time per passage of a shard: processor time, which is all there is with one core."""

    encode_cpu: float
    """To encode one passage, on the machine of the benchmark."""

    encode_gpu: float
    """The same on the accelerator of the benchmark."""

    graph: float
    """Memory per vector in an HNSW graph with fp16 vectors."""

    codes: float
    """Memory per vector in an IVF-PQ index, where there are many."""

    @classmethod
    def fit(cls, results: Callable[[str], Any]) -> Capacity:
        """Fit the model to a million passages, and correct it by what ten million took."""
        big = results("cluster/ten_million")
        passages, steps = big["passages"], big["steps"]
        adding = [row["cpu_seconds"] for name, row in steps.items() if name.startswith("add-")]
        return replace(
            cls.fit_small(results),
            build=sum(adding) / passages,
            disk=sum(steps["search"]["parts_mb"].values()) * 1e6 / passages,
            search=steps["search"]["searchers"]["lexical"]["cpu_ms"] / 1e3 / passages,
        )

    @classmethod
    def fit_small(cls, results: Callable[[str], Any]) -> Capacity:
        """Fit the model to results, by least squares where there are more figures than unknowns."""
        cluster, dense = results("cluster/cluster"), results("dense/beyond_memory")
        passages = cluster["passages"]
        first = next(row for row in cluster["build"]["rows"] if row["system"].startswith("shards"))
        search = _fit_search(results("lexical/speed"))
        process, memory = _fit_memory(cluster)
        ask, fan_out = _fit_routing(cluster, search)
        return cls(
            build=first["cpu_seconds"] / passages,
            disk=first["disk_mb"] * 1e6 / passages,
            process=process,
            memory=memory,
            ask=ask,
            fan_out=fan_out,
            search=search,
            encode_cpu=1 / results("encode/encode")["speed"]["passages_per_second"]["quoth"],
            encode_gpu=1 / results("encode/gpu")["speed"]["passages_per_second"]["quoth"],
            graph=_memory_per_vector(dense["rows"], "hnsw"),
            codes=_memory_per_vector(dense["sizes"][-1]["rows"], "ivfpq"),
        )

    def shards(self, passages: int) -> int:
        """Return how many shards hold so many passages."""
        return -(-passages // PER_SHARD)

    def memory_of(self, passages: int) -> float:
        """Return the memory of all shards' processes."""
        return self.process * self.shards(passages) + self.memory * passages

    def work(self) -> float:
        """Return for how long one shard works on one search."""
        return self.ask + self.search * PER_SHARD

    def routing(self, passages: int) -> float:
        """Return for how long the router works on one search."""
        return self.ask + self.fan_out * self.shards(passages)

    def latency(self, passages: int) -> float:
        """Return how long one search takes."""
        return self.work() + self.fan_out * self.shards(passages)


def _memory_per_vector(rows: Sequence[Any], index: str) -> float:
    """Return what an index keeps in memory for a vector, besides the vectors on disk."""
    found = next(row["bytes_per_vector"] for row in rows if row["index"] == index)
    return float(found["index"] + found["places"] + found["arrays"])


def _fit_search(speed: dict[str, Any]) -> float:
    rows = [row for row in speed["rows"] if row["corpus"].startswith("zipf")]
    seconds = [row["latency"]["quoth"]["p50_ms"] / 1000 for row in rows]
    return fit_line([row["passages"] for row in rows], seconds)[1]


def _fit_memory(cluster: dict[str, Any]) -> tuple[float, float]:
    points = [
        (cluster["passages"] / len(rows), row["private_mb"] * _MEGABYTE)
        for rows in cluster["latency"]["memory"].values()
        for row in rows
    ]
    return fit_line([x for x, _ in points], [y for _, y in points])


def _fit_routing(cluster: dict[str, Any], search: float) -> tuple[float, float]:
    """Fit what a search takes beyond the shards' own work, which shares the machine's cores."""
    cores = int(cluster["machine"].split(", ")[1].split()[0])
    times = cluster["latency"]["times"]
    counts = [len(rows) for rows in cluster["latency"]["memory"].values()]
    rest = [
        times[f"shards-{count}-ray"]["p50_ms"] / 1000
        - search * cluster["passages"] / min(count, cores)
        for count in counts
    ]
    return fit_line(counts, rest)


def fit_line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Fit y = a + b x by least squares, neither below 0; returns a and b.

    >>> fit_line([1.0, 2.0, 4.0], [3.0, 5.0, 9.0])
    (1.0, 2.0)
    """
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    slope = max(0.0, slope)
    return max(0.0, mean_y - slope * mean_x), slope
