"""Reranking by p(query | passage) over BM25 and over the fusion, on the processor alone.

    python -m benchmarks.learn.rerank [--data ../shared/data/ir] --vectors UNITS SHARDS

Everything runs through `Engine`, with the shipped query generator, the default weight and depth 50.
`--vectors` takes documents that were encoded elsewhere (`benchmarks.hybrid.encode`). A set with
more judged queries than --queries is sampled by a fixed seed. Writes results/rerank.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.hybrid.encode import load
from benchmarks.hybrid.quality import take_vectors
from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.evaluation.files import read_queries
from quoth.models.query_generator.generator import QueryGenerator
from quoth.records import Qrels, Query
from quoth.search.rerank_config import RerankConfig

RESULTS = Path(__file__).parent / "results" / "rerank.json"
MEASURES = ("nDCG@10", "RR@10")
SETS = ("scifact", "cranfield", "squad-dev")
FIRST = ("lexical", "hybrid")
NUM_TIMED = 6


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--queries", type=int, default=200, help="Most queries of a set.")
    parser.add_argument("--vectors", type=Path, nargs=2, metavar=("UNITS", "SHARDS"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    generator = Remembering()
    encoded = load(*given.vectors) if given.vectors else {}
    content: dict[str, Any] = {
        "quoth": __version__,
        "measures": MEASURES,
        "most_queries_per_set": given.queries,
        "limited_because": "scoring passages takes most of the time; sampled by seed 0",
        "device": f"cpu, threads: {torch.get_num_threads()}, with other work on the machine",
        "timed": f"median of {NUM_TIMED - 1} queries, one at a time, k = 10",
        "rows": [],
    }
    given.out.parent.mkdir(exist_ok=True)
    for name in given.sets.split(","):
        content["rows"] += measure_set(
            given.data / name, encoded.get(name), generator, most=given.queries
        )
        given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_set(
    folder: Path, encoded: tuple[Any, Any, Any] | None, generator: Remembering, *, most: int
) -> list[dict[str, Any]]:
    """Index one collection, calibrate, and rerank each first search on its first test split."""
    settings = [{"rerank": {"by": "likelihood", "depth": 50}}]
    with (
        tempfile.TemporaryDirectory() as scratch,
        Engine.open(Path(scratch) / "c.quoth", settings=settings) as engine,
    ):
        engine._models._generators[RerankConfig().generator] = cast(Any, generator)
        engine.add_documents(read(folder))
        if encoded is not None:
            take_vectors(engine, encoded)
        weights = dict(engine.encode().weights)
        split, qrels = next(splits(folder))
        judged = [q for q in read_queries(folder / "queries.jsonl.gz") if q.qid in qrels.grades]
        asked = judged if len(judged) <= most else random.Random(0).sample(judged, most)
        shared = {
            "set": folder.name,
            "split": split,
            "queries": len(asked),
            "judged_queries": len(judged),
            "documents": engine.status()["documents"],
            "rerank": asdict(engine.config.rerank),
        }
        return [
            shared | {"fusion_weights": weights if first == "hybrid" else None} | measured
            for first in FIRST
            for measured in [measure_first(engine, asked, qrels, first)]
        ]


def measure_first(engine: Engine, queries: list[Query], qrels: Qrels, first: str) -> dict[str, Any]:
    """Compare a first search with its reranking, and time both on a few queries."""
    runs, times = [], {}
    for rerank in (False, True):
        name = f"{first}-reranked" if rerank else first
        times[name] = time_singly(engine, queries[:NUM_TIMED], first, rerank=rerank)
        runs.append(replace(engine.run(queries, k=100, searcher=first, rerank=rerank), name=name))
    judged = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
    comparison = compare(runs, judged, MEASURES, baseline=first)
    logging.info("%s", {(r.run_name, r.measure): round(r.mean, 4) for r in comparison.rows})
    results = [asdict(row) for row in comparison.rows]
    return {"first": first, "results": results, "ms_per_query": times}


def time_singly(engine: Engine, queries: list[Query], first: str, *, rerank: bool) -> float:
    """Search queries one at a time, as a reader does; gives the median in ms.

    Nothing is remembered from one to the next, and a first query has loaded what is needed.
    """
    generator: Any = engine._models.generator(engine.config.rerank.generator)
    generator.is_remembering = False
    engine.run(queries[:1], k=10, searcher=first, rerank=rerank)
    seconds = []
    for query in queries[1:]:
        began = time.perf_counter()
        engine.run([query], k=10, searcher=first, rerank=rerank)
        seconds.append(time.perf_counter() - began)
    generator.is_remembering = True
    return 1000 * statistics.median(seconds)


class Remembering:
    """A query generator that scores no pair twice, as both first searches find many alike."""

    def __init__(self) -> None:
        self._generator = QueryGenerator.load()
        self._known: dict[tuple[str, str], float] = {}
        self.is_remembering = True

    def score(self, queries: Sequence[str], passages: Sequence[str]) -> NDArray[np.float64]:
        """Return log p(query | passage) of pairs."""
        if not self.is_remembering:
            return np.asarray(self._generator.score(queries, passages), dtype=np.float64)
        pairs = list(zip(queries, passages, strict=True))
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if missing:
            scores = self._generator.score(*map(list, zip(*missing, strict=True)))
            self._known |= dict(zip(missing, scores.tolist(), strict=True))
        return np.array([self._known[pair] for pair in pairs])


if __name__ == "__main__":
    main()
