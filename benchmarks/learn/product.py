"""What a user gets before learning: `auto`, which reranks the fused search, on every collection.

    python -m benchmarks.learn.product [--data ../shared/data/ir] [--sets cisi,cosqa]

Everything runs through `Engine`: add, encode (which calibrates fusion and reranking), run. BM25,
vectors, the fused search and its reranking are compared on the first test split, differences paired
by query, the share fixed at the default beside the calibrated one. A set with more judged queries
than --queries is sampled by a fixed seed. Processor time is that of one query at a time: what other
work on the machine takes is not counted. Sets that were measured before are kept. Writes
results/product.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.engine.reranking import identify_reranker
from quoth.evaluation.compare import compare
from quoth.evaluation.files import read_queries
from quoth.models.pretrained import find_shipped
from quoth.records import Qrels, Query, Run
from quoth.search.rerank import ReadPassage, ScorePairs
from quoth.search.rerank_config import RerankConfig
from quoth.search.searcher import ignore_progress

RESULTS = Path(__file__).parent / "results" / "product.json"
MEASURES = ("nDCG@10", "RR@10")
NUM_TIMED = 6
FIRST = ("lexical", "dense", "hybrid")


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=100, help="Most queries of a set.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    known = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    model = identify_reranker(find_shipped("reader"))
    for name in names:
        row = measure_set(given.data / name, most=given.queries) | {"model": model}
        known = [each for each in known if each["set"] != name] + [row]
        known.sort(key=lambda each: each["set"])
        content = {
            "quoth": __version__,
            "measures": MEASURES,
            "most_queries_per_set": given.queries,
            "default_share": RerankConfig().weight,
            "threads": torch.get_num_threads(),
            "cores": os.cpu_count(),
            "timed": f"median of {NUM_TIMED - 1} queries, one at a time, k = 10",
            "rows": known,
        }
        given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_set(folder: Path, *, most: int) -> dict[str, Any]:
    """Index one collection, calibrate, and compare what can be searched with."""
    models = Remembering()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "c.quoth"
        with Engine(path, [], ignore_progress, models=models) as engine:
            engine.add_documents(read(folder))
            calibration = engine.encode()
            split, qrels = next(splits(folder))
            judged = [q for q in read_queries(folder / "queries.jsonl.gz") if q.qid in qrels.grades]
            asked = judged if len(judged) <= most else random.Random(0).sample(judged, most)
            times = {name: time_singly(engine, asked, name) for name in (*FIRST, "auto")}
            runs = [Run(name, engine.run(asked, k=100, searcher=name).hits) for name in FIRST]
            models.is_remembering = True
            runs.append(replace(engine.run(asked, k=100), name="auto"))
        fixed = {"rerank": {"method": "fixed"}}
        with Engine(path, [fixed], ignore_progress, models=models) as engine:
            runs.append(replace(engine.run(asked, k=100), name="default share"))
            documents = engine.status()["documents"]
    own = Qrels({query.qid: qrels.grades[query.qid] for query in asked})
    comparison = compare(runs, own, MEASURES, baseline="hybrid")
    logging.info(
        "%s %s", folder.name, {(r.run_name, r.measure): round(r.mean, 4) for r in comparison.rows}
    )
    return {
        "set": folder.name,
        "split": split,
        "queries": len(asked),
        "judged_queries": len(judged),
        "documents": documents,
        "fusion_weights": dict(calibration.weights),
        "rerank": None if calibration.rerank is None else asdict(calibration.rerank),
        "results": [asdict(row) for row in comparison.rows],
        "processor_ms_per_query": times,
    }


def time_singly(engine: Engine, queries: list[Query], searcher: str) -> float:
    """Search queries one at a time; returns the median of the processor time in ms."""
    seconds = []
    for query in queries[:NUM_TIMED]:
        began = time.process_time()
        engine.run([query], k=10, searcher=searcher)
        seconds.append(time.process_time() - began)
    return 1000 * statistics.median(seconds[1:])


class Remembering(LoadedModels):
    """Models that read no pair twice, as two shares differ in nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.is_remembering = False
        self._known: dict[tuple[str, ReadPassage], float] = {}

    def reranker(self, config: RerankConfig) -> ScorePairs:
        """Return what scores pairs of query and passage."""
        score = super().reranker(config)

        def remember(queries: Sequence[str], passages: Sequence[ReadPassage]) -> Sequence[float]:
            if not self.is_remembering:
                return score(queries, passages)
            pairs = list(zip(queries, passages, strict=True))
            missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
            if missing:
                found = score([pair[0] for pair in missing], [pair[1] for pair in missing])
                self._known |= dict(zip(missing, found, strict=True))
            return [self._known[pair] for pair in pairs]

        return remember


if __name__ == "__main__":
    main()
