"""The HNSW graph beside exact search over the same vectors: recall@10, and queries per second.

    python -m benchmarks.dense.recall UNITS SHARDS [--data ../shared/data/ir]

UNITS and SHARDS are what `benchmarks.hybrid.encode` packed and encoded: the passages of every
collection, joined here into one index. Queries are the collections' own. Both ways search one
index folder of Quoth's, one query at a time, in turns: a chunk of queries by one, the same chunk by
the other, who goes first alternating; the ratio is the median over chunks, so that a slow minute of
the machine hits both. A found document counts if its score is no lower than the tenth of the exact
search, so that a tie is no miss. Writes results/recall.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import random
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.hybrid.encode import load
from quoth import __version__
from quoth.evaluation.files import read_queries
from quoth.index.dense.config import STORAGES, DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.rank import Found, rank
from quoth.models.glow.encoder import GlowEncoder

RESULTS = Path(__file__).parent / "results" / "recall.json"
K = 10
CHUNK = 50
DEPTHS = (32, 64, 128, 256)
MODEL = {"name": "joined collections"}

Vectors = NDArray[np.float32]
Lists = list[list[Found]]


def main() -> None:
    """Measure every way of storing vectors and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--storages", default=",".join(STORAGES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows, units, vectors = join(load(given.units, given.shards))
    queries = encode_queries(given.data, given.queries)
    unstored = best_unstored(rows, vectors, queries)
    found: list[dict[str, Any]] = []
    for storage in given.storages.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / storage
            truth, measured = measure(folder, storage, (rows, units, vectors), queries)
        measured["kept_of_unstored"] = fmean(overlaps(truth, unstored))
        found.append(measured)
        logging.info("%s", measured)
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} thread(s)",
        "vectors": len(vectors),
        "documents": len(np.unique(rows)),
        "width": vectors.shape[1],
        "queries": len(queries),
        "k": K,
        "neighbours": DenseConfig().hnsw_neighbours,
        "build_depth": DenseConfig().hnsw_build_depth,
        "default_depth": DenseConfig().hnsw_search_depth,
        "rows": found,
    }
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def join(encoded: dict[str, tuple[Any, Any, Any]]) -> tuple[Any, Any, Vectors]:
    """Make one set of vectors of all collections, with rows of their own."""
    rows, before = [], 0
    for own, _units, _vectors in encoded.values():
        rows.append(own + before)
        before = int(rows[-1].max())
    units, vectors = (np.concatenate([each[at] for each in encoded.values()]) for at in (1, 2))
    return np.concatenate(rows), units, vectors


def encode_queries(data: Path, count: int, *, names: Collection[str] | None = None) -> Vectors:
    """Draw queries of all named collections alike, by a fixed seed, and encode them."""
    folders = sorted(path for path in data.iterdir() if path.is_dir())
    folders = [path for path in folders if names is None or path.name in names]
    texts: list[str] = []
    for folder in folders:
        own = [query.text for query in read_queries(folder / "queries.jsonl.gz")]
        share = min(len(own), -(-count // len(folders)))
        texts += random.Random(0).sample(own, share)
    texts = random.Random(0).sample(texts, min(count, len(texts)))
    return GlowEncoder.load(DenseConfig().encoder).encode_queries(texts).vectors


def measure(
    folder: Path, storage: str, content: tuple[Any, Any, Vectors], queries: Vectors
) -> tuple[Lists, dict[str, Any]]:
    """Build one index; compare the graph at several depths with the exact search, given as well."""
    exact_config = DenseConfig(storage=storage, exact_limit=len(content[2]))
    index = DenseIndex.open(folder, model=MODEL, config=exact_config)
    index.add(*content)
    start = time.perf_counter()
    index.build_approximate()
    seconds = time.perf_counter() - start
    exact = DenseIndex.open(folder, model=MODEL, config=exact_config)
    truth = _search(exact, queries)[0]
    depths = sorted({*DEPTHS, DenseConfig().hnsw_search_depth})
    return truth, {
        "storage": storage,
        "build_seconds": seconds,
        "megabytes": sum(each.stat().st_size for each in folder.iterdir()) / 2**20,
        "depths": [
            {"depth": depth, **compare(folder, exact_config, depth, truth, queries)}
            for depth in depths
        ],
    }


def compare(
    folder: Path, exact_config: DenseConfig, depth: int, truth: Lists, queries: Vectors
) -> dict[str, Any]:
    """Search through the graph and exactly, chunk by chunk in turns."""
    config = replace(exact_config, exact_limit=0, hnsw_search_depth=depth)
    ways = {
        "exact": DenseIndex.open(folder, model=MODEL, config=exact_config),
        "graph": DenseIndex.open(folder, model=MODEL, config=config),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found: Lists = []
    for index in ways.values():
        _search(index, queries[:CHUNK])  # warm up
    for at in range(0, len(queries), CHUNK):
        for name in sorted(ways, reverse=at // CHUNK % 2 == 1):
            lists, took = _search(ways[name], queries[at : at + CHUNK])
            seconds[name].append(took)
            if name == "graph":
                found += lists
    own = recalls(found, truth)
    ratios = [e / g for e, g in zip(seconds["exact"], seconds["graph"], strict=True)]
    return {
        "recall": fmean(own),
        "least_recall": min(own),
        "queries_per_second": {name: len(queries) / sum(each) for name, each in seconds.items()},
        "ratio": median(ratios),
    }


def recalls(found: Lists, truth: Lists) -> list[float]:
    """Return the share of the exact K best of each query that were found, ties counted as found.

    >>> recalls([[Found(1, 0, 0.9), Found(3, 0, 0.7)]], [[Found(1, 0, 0.9), Found(2, 0, 0.8)]])
    [0.5]
    """
    shares = []
    for own, best in zip(found, truth, strict=True):
        wanted, lowest = {each.row for each in best}, best[-1].score
        good = sum(each.row in wanted or each.score >= lowest for each in own)
        shares.append(good / len(best))
    return shares


def overlaps(found: Lists, wanted: Lists) -> list[float]:
    """Return the share of the wanted documents that were found, whatever their scores.

    >>> overlaps([[Found(1, 0, 0.9), Found(3, 0, 0.7)]], [[Found(1, 0, 0.8), Found(2, 0, 0.7)]])
    [0.5]
    """
    pairs = zip(found, wanted, strict=True)
    return [
        len({each.row for each in own} & {each.row for each in best}) / len(best)
        for own, best in pairs
    ]


def best_unstored(rows: Any, vectors: Vectors, queries: Vectors) -> Lists:
    """Find the K best documents by the vectors as they came, before they were stored."""
    found: Lists = []
    for query in queries:
        scores = vectors @ query
        top = np.argpartition(scores, len(scores) - 40 * K)[-40 * K :]
        units = np.zeros(len(top), dtype=np.int32)
        found.append(rank(rows[top], units, scores[top], k=K))
    return found


def _search(index: DenseIndex, queries: Sequence[Any] | Vectors) -> tuple[Lists, float]:
    """Search one query after the other, as users do; tells how long it took."""
    start = time.perf_counter()
    found = [index.top_k(np.asarray(query)[None], K, allowed=None)[0] for query in queries]
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
