"""Exact search, the HNSW graph and IVF-PQ codes side by side: recall, time, memory, building.

    python -m benchmarks.hybrid.encode pack UNITS
    python -m benchmarks.dense.encode UNITS SHARDS
    python -m benchmarks.dense.beyond_memory UNITS SHARDS [--sizes 300000,1000000]

The first table is of real vectors: the passages that were encoded, and queries of their own
collections, one at a time, the three in turns. Times are processor time, which other work on the
machine changes least. The second shows how time and memory grow: it adds mixtures of two real
vectors each, about which recall would say nothing, so none is given. Graphs are left out beyond
`--most-graph` vectors, as they take long to build.

Memory is the whole file of the index, as if every page of it were in use (codes, identifiers and
centroids, or vectors and links), and what Quoth keeps beside it for each vector. What a fresh
process really has resident after all queries, by the system's account of its mapped files (Linux
only), stands beside it in the results. Exact search reads all vectors, codes those of candidates:
these lie on disk, and the system keeps as many pages of them as it has room for. Writes
results/beyond_memory.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.dense.encode import BLOCK
from benchmarks.dense.recall import Lists, Vectors, encode_queries, recalls
from benchmarks.hybrid.encode import read_units
from quoth import __version__
from quoth.evaluation.significance import mean_interval
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex

RESULTS = Path(__file__).parent / "results" / "beyond_memory.json"
KINDS = ("exact", "hnsw", "ivfpq")
K = 10
CHUNK = 25
MODEL = {"name": "joined collections"}
PROBES = (4, 8, 16, 32, 64)
RESCORED = (50, 100, 200, 400)
_BLOCK = 50_000


def main() -> None:
    """Measure and write one JSON file, or report the memory of one index for that."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--sizes", default="300000,1000000")
    parser.add_argument("--most-graph", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows, units, vectors, names = read_real(given.units, given.shards)
    queries = encode_queries(given.data, given.queries, names=names)
    with tempfile.TemporaryDirectory() as scratch:
        real = measure_real(Path(scratch), (rows, units, vectors), queries)
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, 1 thread",
        "collections": names,
        "vectors": len(vectors),
        "documents": len(np.unique(rows)),
        "width": vectors.shape[1],
        "queries": len(queries),
        "k": K,
        "defaults": settings(),
        **real,
        "sizes": [],
    }
    for size in (int(each) for each in given.sizes.split(",") if each):
        kinds = KINDS if size <= given.most_graph else ("exact", "ivfpq")
        with tempfile.TemporaryDirectory() as scratch:
            grown = measure_size(Path(scratch), vectors, size, queries[:CHUNK], kinds)
        content["sizes"].append(grown)
        logging.info("%s", grown)
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def settings() -> dict[str, Any]:
    """Return the defaults that the figures hold for."""
    config = DenseConfig()
    names = ["storage", "exact_limit", "hnsw_limit", "hnsw_search_depth"]
    names += ["ivfpq_bytes", "ivfpq_probe_share", "ivfpq_least_probes", "ivfpq_rescored"]
    return {name: getattr(config, name) for name in names}


def read_real(units: Path, shards: Path) -> tuple[Any, Any, Vectors, list[str]]:
    """Join the passages that were encoded, with rows of their own for each collection."""
    rows: list[int] = []
    numbers: list[int] = []
    names: list[str] = []
    for path in sorted(units.glob("*.jsonl.gz")):
        before = rows[-1] if rows else 0
        for row, unit, _fields in read_units(path):
            rows.append(before + row)
            numbers.append(unit)
            names.append(path.name.split(".")[0])
    blocks = {int(path.stem.split("-")[1]): np.load(path) for path in shards.glob("vectors-*.npy")}
    held = np.concatenate([at * BLOCK + np.arange(len(blocks[at])) for at in sorted(blocks)])
    vectors = np.concatenate([blocks[at] for at in sorted(blocks)]).astype(np.float32)
    kept = sorted({names[at] for at in held.tolist()})
    return np.array(rows)[held], np.array(numbers, dtype=np.int32)[held], vectors, kept


def configure(kind: str) -> DenseConfig:
    """Make one kind search any number of vectors."""
    if kind == "exact":
        return replace(DenseConfig(), exact_limit=sys.maxsize)
    return replace(DenseConfig(), exact_limit=0, index=kind)


def open_index(folder: Path, config: DenseConfig) -> DenseIndex:
    """Open an index of this benchmark's."""
    return DenseIndex.open(folder, model=MODEL, config=config)


def measure_real(
    scratch: Path, content: tuple[Any, Any, Vectors], queries: Vectors
) -> dict[str, Any]:
    """Compare the three on the same vectors, and codes at several settings."""
    built = {}
    for kind in KINDS:
        open_index(scratch / kind, configure(kind)).add(*content)
        built[kind] = build(scratch / kind, kind)
    times, found = search_in_turns(scratch, KINDS, queries)
    truth = found["exact"]
    rows = [
        {
            "index": kind,
            **recall_of(found[kind], truth),
            "cpu_ms": 1e3 * fmean(times[kind]),
            "build_cpu_seconds": built[kind],
            **measure_memory(scratch / kind, kind, queries, len(content[2])),
        }
        for kind in KINDS
    ]
    logging.info("%s", rows)
    return {"rows": rows, "settings": list(sweep(scratch / "ivfpq", queries, truth))}


def build(folder: Path, kind: str) -> float:
    """Build what a kind needs; returns the processor time."""
    start = time.process_time()
    if kind != "exact":
        open_index(folder, configure(kind)).build_approximate_if_due()
    return time.process_time() - start


def search_in_turns(
    scratch: Path, kinds: tuple[str, ...], queries: Vectors
) -> tuple[dict[str, list[float]], dict[str, Lists]]:
    """Search one query after the other, a chunk by each kind in turn; returns seconds and hits."""
    opened = {kind: open_index(scratch / kind, configure(kind)) for kind in kinds}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    found: dict[str, Lists] = {kind: [] for kind in kinds}
    for index in opened.values():
        _search(index, queries[:5])  # warm up
    for turn, at in enumerate(range(0, len(queries), CHUNK)):
        for kind in kinds[turn % len(kinds) :] + kinds[: turn % len(kinds)]:
            own = queries[at : at + CHUNK]
            start = time.process_time()
            found[kind] += _search(opened[kind], own)
            times[kind].append((time.process_time() - start) / len(own))
    return times, found


def sweep(folder: Path, queries: Vectors, truth: Lists) -> Iterator[dict[str, Any]]:
    """Try other numbers of lists and candidates than the defaults."""
    default = DenseConfig()
    pairs = [(probes, default.ivfpq_rescored) for probes in PROBES]
    pairs += [(default.ivfpq_least_probes, depth) for depth in RESCORED]
    for probes, depth in dict.fromkeys(pairs):
        config = replace(configure("ivfpq"), ivfpq_least_probes=probes, ivfpq_rescored=depth)
        index = open_index(folder, replace(config, ivfpq_probe_share=0.0))
        _search(index, queries[:5])
        start = time.process_time()
        found = _search(index, queries)
        milliseconds = 1e3 * (time.process_time() - start) / len(queries)
        row = {"probes": probes, "rescored": depth, "cpu_ms": milliseconds}
        yield {**row, **recall_of(found, truth)}


def recall_of(found: Lists, truth: Lists) -> dict[str, Any]:
    """Return the mean recall, its interval over queries, and that of the worst query."""
    own = recalls(found, truth)
    around = mean_interval(own)
    return {
        "recall": fmean(own),
        "interval": [around.low, around.high],
        "least_recall": min(own),
    }


def measure_size(
    scratch: Path, vectors: Vectors, size: int, queries: Vectors, kinds: tuple[str, ...]
) -> dict[str, Any]:
    """Measure time and memory over real vectors and mixtures of them, `size` in all."""
    rows = []
    for kind in kinds:
        folder, before = scratch / kind, 0
        for block in grow(vectors, size):
            numbers = np.arange(before, before + len(block))
            units = np.zeros(len(block), dtype=np.int32)
            open_index(folder, configure("exact")).add(numbers, units, block)
            before += len(block)
        rows.append({"index": kind, "build_cpu_seconds": build(folder, kind)})
    times, _found = search_in_turns(scratch, kinds, queries)
    for row in rows:
        kind = str(row["index"])
        row["cpu_ms"] = 1e3 * fmean(times[kind])
        row.update(measure_memory(scratch / kind, kind, queries, size))
    return {"vectors": size, "mixed": size - len(vectors), "rows": rows}


def grow(vectors: Vectors, size: int) -> Iterator[Vectors]:
    """Yield the real vectors, then mixtures of two of them each, up to a number."""
    yield vectors[:size]
    chance = np.random.default_rng(0)
    for start in range(len(vectors), size, _BLOCK):
        count = min(_BLOCK, size - start)
        one, other = chance.integers(0, len(vectors), (2, count))
        share = chance.uniform(0.5, 1.0, (count, 1)).astype(np.float32)
        mixed = share * vectors[one] + (1 - share) * vectors[other]
        yield mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def measure_memory(folder: Path, kind: str, queries: Vectors, size: int) -> dict[str, Any]:
    """Ask a fresh process what it keeps of an index; bytes per vector."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as stream:
        np.save(stream, queries)
        stream.flush()
        run = [sys.executable, "-c", _PROBE, str(folder), kind, stream.name]
        told = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    arrays, resident = json.loads(told.splitlines()[-1])
    sizes = {"index": 0, "places": 0, "vectors": 0}
    for path in folder.iterdir():
        if (part := part_of(path.name)) in sizes:
            sizes[part] += path.stat().st_size
    files = sum(path.stat().st_size for path in folder.iterdir())
    counts = {**sizes, "arrays": arrays}
    return {
        "bytes_per_vector": {name: count / size for name, count in counts.items()},
        "resident_bytes_per_vector": {name: count / size for name, count in resident.items()},
        "disk_bytes_per_vector": files / size,
    }


def part_of(name: str) -> str:
    """Say what a file of an index holds.

    >>> [part_of(each) for each in ("segment-000001.codes.npy", "ivfpq-000004.faiss")]
    ['vectors', 'index']
    """
    parts = {"segment": "vectors", "places": "places", "graph": "index", "ivfpq": "index"}
    return parts.get(name.split("-")[0], "other")


_PROBE = """
import sys
from benchmarks.dense.beyond_memory import report_memory
report_memory(*sys.argv[1:])
"""


def report_memory(folder: str, kind: str, queries: str) -> None:
    """Search, then print what Quoth keeps for each vector, and what is resident of the files."""
    index = open_index(Path(folder), configure(kind))
    _search(index, np.load(queries))
    mapped = {"index": 0, "places": 0, "vectors": 0}
    for path, count in resident_files():
        if path.startswith(folder):
            mapped[part_of(Path(path).name)] += count
    now = index._now
    arrays: list[Any] = [now.live]
    if now.approximate is not None:
        arrays.append(now.approximate.covers)
    if "rows" in vars(now.vectors):
        arrays.append(now.vectors.rows)
    print(json.dumps([sum(each.nbytes for each in arrays), mapped]))


def resident_files() -> Iterator[tuple[str, int]]:
    """Read how many bytes of each mapped file are in this process's memory."""
    path = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)", line):
            path = found[1].removesuffix(" (deleted)")
        elif line.startswith("Rss:"):
            yield path, 1024 * int(line.split()[1])


def _search(index: DenseIndex, queries: Vectors) -> Lists:
    return [index.top_k(query[None], K, allowed=None)[0] for query in queries]


if __name__ == "__main__":
    main()
