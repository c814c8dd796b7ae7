"""What adding, updating, removing and searching cost as a collection grows.

    python -m benchmarks.lexical.growth [--sizes 1000,10000,100000,1000000] [--queries 200]

Passages of 48 words, cut of real texts (`benchmarks.cluster.build`), in random order. At each size,
an eighth of them is updated, then removed, then added again: enough that the index is rebuilt for
each of the first two, so that what they bring about later is part of their cost. Processor time per
document, all threads together, and per query, with passages and snippets, the median of five
rounds. Writes results/growth.json after each size.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster.build import WORDS, passages
from benchmarks.serve.collection import sample_queries
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.records import Document, SearchRequest

RESULTS = Path(__file__).parent / "results" / "growth.json"
SHARE = 8
ROUNDS = 5
MOST = 1_000_000


def main() -> None:
    """Grow one collection from size to size and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sizes", default="1000,3000,10000,30000,100000,300000,1000000")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sizes = [int(size) for size in given.sizes.split(",")]
    sets = sorted(path.name for path in (given.data / "ir").iterdir())
    documents = take(given.data, count=max(sizes))
    queries = sample_queries(given.data / "ir", sets, count=given.queries)
    loads, rows = [os.getloadavg()[0]], []
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c") as engine:
        for before, size in itertools.pairwise([0, *sizes]):
            engine.add_documents(documents[before:size])
            rows.append({"documents": size, **measure(engine, documents[:size], queries)})
            loads.append(os.getloadavg()[0])
            logging.info("%s", json.dumps(rows[-1]))
            write(rows, loads, given.out)


def write(rows: Sequence[dict[str, float]], loads: Sequence[float], path: Path) -> None:
    """Write what was measured so far."""
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": median(loads),
        "words": WORDS,
        "rows": rows,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def take(data: Path, *, count: int) -> list[Document]:
    """Take passages of all texts in random order, the same every time."""
    found = list(passages(data, MOST))
    if count > len(found):
        raise SystemExit(f"there are {len(found):,} passages, expected {count:,}")
    return random.Random(0).sample(found, count)


def measure(
    engine: Engine, documents: Sequence[Document], queries: Sequence[str]
) -> dict[str, float]:
    """Change an eighth of the documents three times, and search."""
    some = documents[::SHARE]
    changed = [revise(each) for each in some]
    docids = [each.docid for each in some]
    took = {
        "update": _took(lambda: engine.add_documents(changed)) / len(some),
        "remove": _took(lambda: engine.remove(docids)) / len(some),
        "add": _took(lambda: engine.add_documents(some)) / len(some),
    }
    rounds = [_took(lambda: _search(engine, queries)) / len(queries) for _ in range(ROUNDS + 1)]
    return {f"{name}_ms": 1e3 * each for name, each in took.items()} | {
        "search_ms": 1e3 * median(rounds[1:])  # the first warms up
    }


def revise(document: Document) -> Document:
    """Return a document whose text ends in one more word."""
    ((name, (text,)),) = document.fields.items()
    return replace(document, fields={name: (f"{text} revised",)})


def _search(engine: Engine, queries: Sequence[str]) -> list[Any]:
    return [engine.find(SearchRequest(text, searcher="lexical", syntax=False)) for text in queries]


def _took(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
