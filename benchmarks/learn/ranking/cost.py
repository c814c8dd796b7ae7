"""What a second look at the best hits costs: processor time of a search with and without it.

    python -m benchmarks.learn.ranking.cost [--data ../shared/data/ir] [--sets cosqa,cranfield]

Whole collections, added and encoded on this machine, searched one query at a time, in turns by both
settings, by the product's own networks (int8 where the processor has it). Writes results/look.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.lexical.quality import read, splits
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.evaluation.files import read_queries
from quoth.models.processor import has_fast_int8, num_threads
from quoth.records import Query
from quoth.search.rerank_config import SECOND_LOOK
from quoth.search.searcher import ignore_progress

RESULTS = Path(__file__).parents[1] / "results" / "look.json"
STATES: dict[str, dict[str, Any]] = {"once": {}, "twice": {"rerank": SECOND_LOOK}}
NUM_TIMED = 16


def main() -> None:
    """Time the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="cosqa,cranfield")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows = [time_set(given.data / name) for name in given.sets.split(",")]
    about = {
        "threads": num_threads(),
        "int8": has_fast_int8(),
        "timed": f"processor time, median of {NUM_TIMED - 1} queries, k = 10, other work beside it",
        "rows": rows,
    }
    given.out.write_text(json.dumps(about, indent=1) + "\n")


def time_set(folder: Path) -> dict[str, Any]:
    """Search one collection by both settings, in turns."""
    _split, qrels = next(splits(folder))
    queries = [q for q in read_queries(folder / "queries.jsonl.gz") if q.qid in qrels.grades]
    with tempfile.TemporaryDirectory() as scratch:
        path, models = Path(scratch) / "c.quoth", LoadedModels()
        with Engine(path, [], ignore_progress, models=models) as engine:
            engine.add_documents(read(folder))
            engine.encode()
        found = _in_turns(path, queries[:NUM_TIMED], models)
    return {"set": folder.name, "ms": {name: round(1000 * each, 1) for name, each in found.items()}}


def _in_turns(path: Path, queries: Sequence[Query], models: LoadedModels) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in STATES}
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(Engine(path, [settings], ignore_progress, models=models))
            for name, settings in STATES.items()
        }
        for query in queries:
            for name, engine in engines.items():
                began = time.process_time()
                engine.run([query], k=10)
                seconds[name].append(time.process_time() - began)
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


if __name__ == "__main__":
    main()
