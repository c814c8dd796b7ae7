"""The section of the benchmarks page about shards, and the capacity on paper of docs/scale.md.

The model is fitted to the results alone: every coefficient has a name, is printed, and is computed
here from committed files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]
SIZES = (10_000_000, 1_000_000_000, 100_000_000_000)
PER_SHARD = 10_000_000
FULL = 1_000_000
QUANTISED_BYTES = 64
_PLAIN = "plain"


def cluster_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw shards beside the collection in one piece."""
    yield "## Shards"
    yield ""
    yield f"`python -m benchmarks.cluster.run`, {results['machine']}. {results['passages']:,}"
    yield f"passages of at most {results['words']} words, cut from real texts (retrieval sets,"
    yield "Wikipedia, natural pairs, EU acts), BM25. Built one after another in one process each."
    if results["passages"] < FULL:
        yield f"A trial on a busy machine: {FULL:,} passages on a quiet one are still to be run,"
        yield "and these times compare with nothing."
    yield ""
    yield table(
        [
            *("collection", "seconds", "over one piece", "seconds of work", "over one piece"),
            *("peak MB", "disk MB", "load before"),
        ],
        [_built(row) for row in results["build"]["rows"]],
    )
    yield ""
    latency = results["latency"]
    yield "One client, the same queries in turns, k = 10; *ray*: each shard is a process behind Ray"
    yield "Serve, all on this machine, so that more shards than cores wait for each other. The load"
    yield f"was {latency['load_before']:.1f} before. Times in ms."
    yield ""
    yield table(
        ["collection", "queries", "p50", "p95", "p99"],
        [_timed(name, row) for name, row in latency["times"].items()],
    )
    yield ""
    yield "Memory of each shard's process, its own and with what it maps, in MB:"
    yield ""
    yield table(
        ["collection", "own, per shard", "resident, per shard"],
        [_memory(name, rows) for name, rows in latency["memory"].items()],
    )
    yield ""
    yield from _exactness(results, table)


def _built(row: dict[str, Any]) -> list[str]:
    return [
        row["system"],
        f"{row['seconds']:.0f}",
        f"{row['over_plain']:.2f}",
        f"{row['cpu_seconds']:.0f}",
        f"{row['work_over_plain']:.2f}",
        f"{row['peak_mb']:.0f}",
        f"{row['disk_mb']:.0f}",
        f"{row['load_before']:.1f}",
    ]


def _timed(name: str, row: dict[str, Any]) -> list[str]:
    times = [f"{row[each]:.1f}" for each in ("p50_ms", "p95_ms", "p99_ms")]
    return [name, f"{row['queries']}", *times]


def _memory(name: str, rows: Sequence[dict[str, float]]) -> list[str]:
    own = ", ".join(f"{row['private_mb']:.0f}" for row in rows)
    return [name, own, ", ".join(f"{row['resident_mb']:.0f}" for row in rows)]


def _exactness(results: dict[str, Any], table: Table) -> Iterable[str]:
    yield "Exactness against the collection in one piece: the share of queries with the same 100"
    yield "best, and the largest difference of scores, in bulk and as shown to a user. Shards score"
    yield "in double precision throughout, one piece in bulk in single, whose steps are 1.5e-5 at a"
    yield "score of 200: hence the difference as a share of the score, too (of 1 where it is less)."
    yield ""
    yield table(
        [
            *("set", "queries", "shards", "same 100", "largest, bulk", "of the score"),
            *("same 100, shown", "largest"),
        ],
        [
            [
                row["set"],
                f"{row['queries']:,}",
                count,
                f"{found['bulk']['same_top_100']:.3f}",
                f"{found['bulk']['largest_difference']:.0e}",
                f"{found['bulk']['largest_share']:.0e}",
                f"{found['shown']['same_top_100']:.3f}",
                f"{found['shown']['largest_difference']:.0e}",
            ]
            for row in results["exact"]
            for count, found in row["shards"].items()
        ],
    )
    yield ""
    vectors = results["vectors"]
    yield f"By vectors and fused, {vectors['set']} ({vectors['documents']:,} documents,"
    yield f"{vectors['queries']:,} queries):"
    yield ""
    yield table(
        ["searcher", "shards", "same 100", "largest difference"],
        [
            [name, count, f"{found['same_top_100']:.3f}", f"{found['largest_difference']:.0e}"]
            for name, counts in vectors["searchers"].items()
            for count, found in counts.items()
        ],
    )


@dataclass(frozen=True)
class Coefficients:
    """What the model of docs/scale.md is made of; sizes in bytes, times in seconds."""

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
    """Further time per passage of a shard, from the benchmark of BM25's speed."""

    encode_cpu: float
    """To encode one passage, on the machine of the benchmark."""

    encode_gpu: float
    """The same on the accelerator of the benchmark."""

    graph: float
    """Memory per vector in an HNSW graph with fp16 vectors."""


def fit(
    cluster: dict[str, Any],
    *,
    speed: dict[str, Any],
    dense: dict[str, Any],
    encode: dict[str, Any],
    gpu: dict[str, Any],
) -> Coefficients:
    """Fit the model to results, by least squares where there are more figures than unknowns."""
    passages = cluster["passages"]
    built = {row["system"]: row for row in cluster["build"]["rows"]}
    counts = sorted(int(name.rpartition("-")[2]) for name in built if name != _PLAIN)
    first = built[f"shards-{counts[0]}"]
    own = [
        (passages / count, row["private_mb"] * 1024 * 1024)
        for count in counts
        for row in cluster["latency"]["memory"][f"shards-{count}"]
    ]
    process, memory = _line([x for x, _y in own], [y for _x, y in own])
    times = cluster["latency"]["times"]
    cores = int(cluster["machine"].split(", ")[1].split()[0])
    sizes = [row for row in speed["rows"] if row["corpus"].startswith("zipf")]
    _least, search = _line(
        [row["passages"] for row in sizes],
        [row["latency"]["quoth"]["p50_ms"] / 1000 for row in sizes],
    )
    rest = [
        times[f"shards-{count}-ray"]["p50_ms"] / 1000 - search * passages / min(count, cores)
        for count in counts
    ]
    ask, fan_out = _line(counts, rest)
    vectors = next(row for row in dense["rows"] if row["storage"] == "fp16")
    return Coefficients(
        build=first["cpu_seconds"] / passages,
        disk=first["disk_mb"] * 1e6 / passages,
        process=process,
        memory=memory,
        ask=ask,
        fan_out=fan_out,
        search=search,
        encode_cpu=1 / encode["speed"]["passages_per_second"]["quoth"],
        encode_gpu=1 / gpu["speed"]["passages_per_second"]["quoth"],
        graph=vectors["megabytes"] * 1024 * 1024 / dense["vectors"],
    )


def _line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Fit y = a + b x by least squares, neither below 0; gives a and b.

    >>> _line([1.0, 2.0, 4.0], [3.0, 5.0, 9.0])
    (1.0, 2.0)
    """
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    slope = max(0.0, slope)
    return max(0.0, mean_y - slope * mean_x), slope


def coefficients_table(found: Coefficients, table: Table) -> str:
    """Print what was fitted."""
    return table(
        ["coefficient", "value", "per"],
        [
            ["build", f"{found.build * 1e3:.2f} ms", "passage, one core"],
            ["disk", f"{found.disk:,.0f} bytes", "passage"],
            ["process", f"{found.process / 1e6:,.0f} MB", "shard's process"],
            ["memory", f"{found.memory:.1f} bytes", "passage"],
            ["ask", f"{found.ask * 1e3:.1f} ms", "search through Ray"],
            ["fan_out", f"{found.fan_out * 1e3:.2f} ms", "shard asked"],
            ["search", f"{found.search * 1e9:.1f} ns", "passage of a shard"],
            ["encode", f"{found.encode_cpu * 1e3:.0f} ms", "passage, two cores"],
            ["encode, GPU", f"{found.encode_gpu * 1e3:.2f} ms", "passage"],
            ["graph", f"{found.graph:,.0f} bytes", "vector, fp16 in HNSW"],
        ],
    )


def capacity_table(found: Coefficients, table: Table) -> str:
    """Print what the model says of larger collections."""
    columns = [f"{size / 1e6:,.0f} million" for size in SIZES]
    rows: list[tuple[str, Callable[[int], str]]] = [
        ("shards", lambda n: f"{_shards(n):,}"),
        ("disk", lambda n: _bytes(found.disk * n)),
        ("memory per shard, BM25", lambda _n: _bytes(found.process + found.memory * PER_SHARD)),
        ("memory in all, BM25", lambda n: _bytes(_bm25_memory(found, n))),
        ("core hours to build, BM25", lambda n: f"{found.build * n / 3600:,.1f}"),
        ("hours, one core per shard", lambda _n: f"{found.build * PER_SHARD / 3600:,.1f}"),
        ("GPU hours to encode", lambda n: f"{found.encode_gpu * n / 3600:,.1f}"),
        ("memory of vectors, HNSW", lambda n: _bytes(found.graph * n)),
        ("memory of vectors, 64-byte codes", lambda n: _bytes(QUANTISED_BYTES * n)),
        ("latency of one search", lambda n: f"{_latency(found, n):,.2f} s"),
        ("searches a second, one core per shard", lambda _n: _per_second(_work(found))),
        ("searches a second, one router", lambda n: _per_second(_routing(found, n))),
    ]
    return table(["", *columns], [[name, *(say(n) for n in SIZES)] for name, say in rows])


def trial_note(cluster: dict[str, Any]) -> str:
    """Say that the figures are of a trial, as long as they are."""
    measured = cluster["passages"]
    if measured >= FULL:
        return ""
    return (
        f"; until the full benchmark has been run, those of shards come from a trial of"
        f" {measured:,} passages on a busy machine, and say no more than how the model is made"
    )


def extrapolation(cluster: dict[str, Any]) -> str:
    """Say how far from what was measured each size is."""
    measured = cluster["passages"]
    times = [f"{size / measured:,.0f}" for size in SIZES]
    return f"{measured:,} passages were measured; the columns are {', '.join(times)} times as many"


def _shards(passages: int) -> int:
    return -(-passages // PER_SHARD)


def _bm25_memory(found: Coefficients, passages: int) -> float:
    return found.process * _shards(passages) + found.memory * passages


def _work(found: Coefficients) -> float:
    """Seconds that one shard works on one search."""
    return found.ask + found.search * PER_SHARD


def _routing(found: Coefficients, passages: int) -> float:
    """Seconds that the router works on one search."""
    return found.ask + found.fan_out * _shards(passages)


def _per_second(seconds: float) -> str:
    """Say how often something fits into a second; a fit may find that it takes no time.

    >>> _per_second(0.4), _per_second(0.0)
    ('2.50', 'more than measured')
    """
    return f"{1 / seconds:,.2f}" if seconds > 0 else "more than measured"


def _latency(found: Coefficients, passages: int) -> float:
    return _work(found) + found.fan_out * _shards(passages)


def _bytes(size: float) -> str:
    """Write a size in its own unit.

    >>> _bytes(3.2e9), _bytes(5e13)
    ('3.2 GB', '50.0 TB')
    """
    for unit, value in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if size >= value:
            return f"{size / value:,.1f} {unit}"
    return f"{size / 1e6:,.1f} MB"
