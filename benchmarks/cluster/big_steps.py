"""The steps of a long life that a large collection goes through, each measured by who calls it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster.apart import own_megabytes
from benchmarks.cluster.measure import opened, work_in_turns
from benchmarks.cluster.rounds import docids_of_round, passages_of_round
from benchmarks.serve.collection import sample_queries
from benchmarks.serve.load import quantiles_ms
from quoth.collection.shards import create_shards, is_sharded, open_shards
from quoth.engine.engine import Engine
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import merge_shards

_REMOVED = 10


def add_round(
    folder: Path, data: Path, number: int, *, count: int, num_shards: int
) -> dict[str, Any]:
    """Add the passages of one round; the first makes the collection, in one piece if no shards."""
    if num_shards and not folder.exists():
        create_shards(folder, count=num_shards)
    with _open(folder) as engine:
        begun = time.perf_counter()
        written = engine.add_documents(passages_of_round(data, number, count))
        seconds = time.perf_counter() - begun
    return {"added": written.added, "unchanged": written.unchanged, "adding_seconds": seconds}


def search(
    folder: Path, *, data: Path, num_queries: int, searchers: Sequence[str]
) -> dict[str, Any]:
    """Search the same real queries with each searcher, one by one; the first is timed apart.

    Those by vectors are left out where there are none.
    """
    queries = _draw_queries(data, num_queries + 1)
    has_vectors = any(folder.glob("dense/*")) or any(folder.glob("shard-*/dense/*"))
    rows = {}
    with _open(folder) as engine:
        for searcher in searchers if has_vectors else ("lexical",):
            begun = time.perf_counter()
            engine.search(queries[-1], k=10, syntax=False, searcher=searcher)
            first = time.perf_counter() - begun
            rows[searcher] = {
                "first_seconds": first,
                **_time(engine, queries[:-1], searcher),
                "own_mb": own_megabytes(),
            }
        documents = engine.status()["documents"]
    return {"documents": documents, "searchers": rows, "parts_mb": weigh_parts(folder)}


def work(shards: Path, merged: Path, *, data: Path, num_queries: int) -> dict[str, Any]:
    """Count the processor time of a search in one piece, in shards, and in shards through Ray.

    Shards are asked at the same time, and what a search takes may depend on whether another core
    works. So all are asked a second time, while a loop keeps one busy.
    """
    folders = {"plain": merged, f"shards-{open_shards(shards).count}": shards}
    queries = _draw_queries(data, num_queries)
    with opened(folders, through_ray=True) as asks:
        alone = work_in_turns(asks, folders, queries)
        with _busy_core():
            beside = work_in_turns(asks, folders, queries)
    return {"queries": len(queries), "systems": alone, "beside_a_loop": beside}


@contextlib.contextmanager
def _busy_core() -> Iterator[None]:
    """Keep a core busy until the block ends."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def _draw_queries(data: Path, count: int) -> list[str]:
    sets = sorted(path.name for path in (data / "ir").iterdir() if path.is_dir())
    return sample_queries(data / "ir", sets, count=count)


def weigh_parts(folder: Path) -> dict[str, float]:
    """Say how much each part of a collection takes on disk, over all shards."""
    sizes: Counter[str] = Counter()
    for shard in sorted(folder.glob("shard-*")) or [folder]:
        for path in shard.rglob("*"):
            if path.is_file():
                part = path.relative_to(shard).parts[0].partition("-wal")[0]
                sizes[part.partition("-shm")[0]] += path.stat().st_size
    return {part: size / 1e6 for part, size in sorted(sizes.items())}


def verify(folder: Path) -> dict[str, Any]:
    """Check everything that is stored."""
    with _open(folder) as engine:
        found = engine.verify()
    return {"is_clean": found.is_clean, "lines": list(found.lines())}


def remove_tenth(folder: Path, data: Path, *, count: int, rounds: int) -> dict[str, Any]:
    """Remove every tenth passage of each round, all at once."""
    gone = [
        docid
        for number in range(rounds)
        for at, docid in enumerate(docids_of_round(data, number, count))
        if at % _REMOVED == 0
    ]
    with _open(folder) as engine:
        missing = engine.remove(gone)
    return {"removed": len(gone) - len(missing), "missing": len(missing)}


def merge(folder: Path, out: Path) -> dict[str, Any]:
    """Write all shards as one collection."""
    merge_shards(folder, out)
    return {}


def _open(folder: Path) -> Engine | ShardedEngine:
    return ShardedEngine.open(folder) if is_sharded(folder) else Engine.open(folder)


def _time(engine: Engine | ShardedEngine, queries: Sequence[str], searcher: str) -> dict[str, Any]:
    """Time searches one after another; some come before that do not count."""
    for text in queries[: len(queries) // 4]:
        engine.search(text, k=10, syntax=False, searcher=searcher)
    times, found, worked = [], 0, time.process_time()
    for text in queries:
        begun = time.perf_counter()
        found += len(engine.search(text, k=10, syntax=False, searcher=searcher))
        times.append(time.perf_counter() - begun)
    work = 1000 * (time.process_time() - worked) / len(queries)
    return {"queries": len(queries), "hits": found, "cpu_ms": work, **quantiles_ms(times)}
