"""What adding, updating, removing and searching cost as a collection grows.

    python -m benchmarks.lexical.growth [--sizes 1000,3000,10000,30000] [--queries 200]

Real texts of all sets, in equal shares, title and text joined. At each size, an eighth of the
documents is updated, then removed, then added again: enough that the index is rebuilt for each of
the first two, so that what they bring about later is part of their cost. Processor time per
document, all threads together, and per query, with passages and snippets, the median of five
rounds. Writes results/growth.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lexical.quality import join, read
from benchmarks.serve.collection import sample_queries
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.records import Document, SearchRequest

RESULTS = Path(__file__).parent / "results" / "growth.json"
SHARE = 8
ROUNDS = 5


def main() -> None:
    """Grow one collection from size to size and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sizes", default="1000,3000,10000,30000")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sizes = [int(size) for size in given.sizes.split(",")]
    sets = sorted(path.name for path in given.data.iterdir())
    documents = take(given.data, sets, count=max(sizes))
    queries = sample_queries(given.data, sets, count=given.queries)
    loads, rows = [os.getloadavg()[0]], []
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c") as engine:
        for before, size in itertools.pairwise([0, *sizes]):
            engine.add_documents(documents[before:size])
            rows.append({"documents": size, **measure(engine, documents[:size], queries)})
            loads.append(os.getloadavg()[0])
            logging.info("%s", json.dumps(rows[-1]))
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": sorted(loads)[len(loads) // 2],
        "rows": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def take(data: Path, sets: Sequence[str], *, count: int) -> list[Document]:
    """Take documents in turns of the sets, as far as each has them, title and text joined."""
    sources = [_read_named(data, name) for name in sets]
    mixed = (each for portion in itertools.zip_longest(*sources) for each in portion if each)
    return list(itertools.islice(mixed, count))


def _read_named(data: Path, name: str) -> Iterator[Document]:
    """Read a set's documents under docids that no other set has."""
    return (replace(join(each), docid=f"{name}/{each.docid}") for each in read(data / name))


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
