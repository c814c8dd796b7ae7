"""What a page costs beside the ranking alone: documents, passages, snippets, and copies together.

    python -m benchmarks.lexical.shown [--rounds 9]

`run` ranks (`Engine.run`); `search` adds documents and passages, near-identical ones shown once
(`Engine.search`); `find` adds snippets (`Engine.find`). The same queries for all, k = 10, in turns,
in processor time, after all of them were asked once. Ratios are medians over rounds. Python's
docstrings are asked for words that stand together in some of them, all sets joined for samples of
their own queries. Writes results/shown.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.serve.collection import make_collection, sample_queries
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.records import Query, SearchRequest

RESULTS = Path(__file__).parent / "results" / "shown.json"
K = 10
LONGEST = 5
"""Words of a query for the docstrings, at most."""


def main() -> None:
    """Measure both collections and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sets = sorted(path.name for path in given.data.iterdir())
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        with Engine.open(Path(scratch) / "docs") as engine:
            engine.add(["python:stdlib"])
            queries = words_together(engine, given.queries)
            rows.append({"corpus": "docstrings", **measure(engine, queries, given.rounds)})
        with Engine.open(make_collection(given.data, sets, vectors=None)) as engine:
            queries = sample_queries(given.data, sets, count=given.queries)
            rows.append({"corpus": "joined sets", **measure(engine, queries, given.rounds)})
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[1], 1),
        "rounds": given.rounds,
        "k": K,
        "rows": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def words_together(engine: Engine, count: int) -> list[str]:
    """Take a few words that stand together in documents, one query of a document."""
    seeded, docids, found = random.Random(0), list(engine.docids()), list[str]()
    seeded.shuffle(docids)
    for docid in docids:
        texts = [text for own in engine.document(docid).fields.values() for text in own]
        words = [word for word in " ".join(texts).split() if word.isalpha()]
        length = seeded.randint(2, LONGEST)
        if len(words) > length and len(found) < count:
            start = seeded.randrange(len(words) - length)
            found.append(" ".join(words[start : start + length]))
    return found


def measure(engine: Engine, queries: Sequence[str], rounds: int) -> dict[str, Any]:
    """Ask all queries in each way, round by round."""
    ways: dict[str, Callable[[str], object]] = {
        "run": lambda text: engine.run([Query("", text)], k=K, searcher="lexical"),
        "search": lambda text: engine.search(text, k=K, searcher="lexical", syntax=False),
        "find": lambda text: engine.find(
            SearchRequest(text, k=K, searcher="lexical", syntax=False)
        ),
    }
    for way in ways.values():
        take_time(way, queries)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _round in range(rounds):
        for name, way in ways.items():
            taken[name].append(take_time(way, queries))
        logging.info("%s", {name: round(own[-1], 3) for name, own in taken.items()})
    return {
        "documents": engine.status()["documents"],
        "queries": len(queries),
        "milliseconds": {name: median(own) for name, own in taken.items()},
        "over_run": {
            name: median(one / run for one, run in zip(own, taken["run"], strict=True))
            for name, own in taken.items()
        },
    }


def take_time(way: Callable[[str], object], queries: Sequence[str]) -> float:
    """Return the milliseconds of processor time that a query takes."""
    start = time.process_time()
    for text in queries:
        way(text)
    return 1e3 * (time.process_time() - start) / len(queries)


if __name__ == "__main__":
    main()
