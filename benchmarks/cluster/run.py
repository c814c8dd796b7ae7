"""A collection in shards beside the same collection in one piece.

    python -m benchmarks.cluster.run [--passages 1000000] [--shards 1,2,4] [--parts build,latency]

*build*: seconds, peak memory and disk of each (`build.py`), one after another, each in a process of
its own. *latency*: one client, the same queries in turns, to the collection in one piece, to shards
in this process, and to shards behind Ray Serve; and the memory of each shard's process. *work*:
processor time per search of the same systems, over all processes that take part. *exact*: on
every real set, the 100 best and their scores. *vectors*: the same by vectors and fused on one small
set, since encoding a million passages takes days here. Each part is written to
results/cluster.json when it is done, and left alone if it is there for as many passages, unless
--again.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster.build import PLAIN, WORDS, build, folder_of
from benchmarks.cluster.measure import (
    check_exactness,
    check_vectors,
    opened,
    replica_megabytes,
    time_in_turns,
    work_in_turns,
)
from benchmarks.serve.collection import sample_queries
from quoth import __version__

RESULTS = Path(__file__).parent / "results" / "cluster.json"
PARTS = ("build", "latency", "work", "exact", "vectors")


def main() -> None:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--shards", default="1,2,4")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--sets", default="", help="of the exactness part; all unless given")
    parser.add_argument("--vectors", default="cranfield", help="the set that is encoded")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    counts = [int(each) for each in given.shards.split(",")]
    ir = given.data / "ir"
    every = sorted(path.name for path in ir.iterdir() if path.is_dir())
    sets = given.sets.split(",") if given.sets else every
    systems = [PLAIN, *(f"shards-{count}" for count in counts)]
    parts: dict[str, Callable[[], Any]] = {
        "build": lambda: _build(given.data, given.passages, systems),
        "latency": lambda: _latency(
            given.passages, systems, sample_queries(ir, every, count=given.queries)
        ),
        "work": lambda: _work(
            given.passages, systems, sample_queries(ir, every, count=given.queries)
        ),
        "exact": lambda: [
            check_exactness(ir / name, counts, num_queries=given.queries) for name in sets
        ],
        "vectors": lambda: check_vectors(ir / given.vectors, counts, num_queries=given.queries),
    }
    results = _read(given.out, passages=given.passages)
    for name in given.parts.split(","):
        if given.again or name not in results:
            results[name] = parts[name]()
            _write(given.out, results)


def _build(data: Path, count: int, systems: Sequence[str]) -> dict[str, Any]:
    rows = [build(data, count, system) for system in systems]
    plain = next(row for row in rows if row["system"] == PLAIN)
    for row in rows:
        row["over_plain"] = row["seconds"] / plain["seconds"]
        row["work_over_plain"] = row["cpu_seconds"] / plain["cpu_seconds"]
    logging.info("%s", [(r["system"], r["over_plain"], r["work_over_plain"]) for r in rows])
    return {"rows": rows}


def _latency(count: int, systems: Sequence[str], queries: Sequence[str]) -> dict[str, Any]:
    folders = {system: folder_of(count, system) for system in systems}
    load = os.getloadavg()[0]
    with opened(folders, through_ray=True) as asks:
        times = time_in_turns(asks, queries)
        memory = {
            system: replica_megabytes(folder)
            for system, folder in folders.items()
            if system != PLAIN
        }
    logging.info("%s", {name: (own["p50_ms"], own["p99_ms"]) for name, own in times.items()})
    return {"load_before": load, "times": times, "memory": memory}


def _work(count: int, systems: Sequence[str], queries: Sequence[str]) -> dict[str, Any]:
    folders = {system: folder_of(count, system) for system in systems}
    load = os.getloadavg()[0]
    with opened(folders, through_ray=True) as asks:
        rows = work_in_turns(asks, folders, queries)
    logging.info("%s", {name: (own["cpu_ms"], own["over_plain"]) for name, own in rows.items()})
    return {"load_before": load, "queries": len(queries), "systems": rows}


def _read(path: Path, *, passages: int) -> dict[str, Any]:
    """Read what is known already, unless it is of another number of passages."""
    known = json.loads(path.read_text()) if path.exists() else {}
    machine = f"{platform.machine()}, {multiprocessing.cpu_count()} cores"
    if known.get("passages") == passages:
        return {**known, "quoth": __version__, "machine": machine}
    return {
        "quoth": __version__,
        "machine": machine,
        "passages": passages,
        "words": WORDS,
    }


def _write(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
