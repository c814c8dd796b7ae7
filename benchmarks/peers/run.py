"""Search with and without what is shown of hits, beside what users would take instead.

    python -m benchmarks.peers.run [--documents 60000] [--rounds 5]

The same documents, queries and k for all: Python's docstrings, and real texts of all sets, in turns
in one process, in processor time (all threads together). Ratios are medians over rounds of what two
systems took in the same round. Writes results/peers.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
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

from benchmarks.lexical.quality import read
from benchmarks.peers.systems import BUILDERS, OPENERS, K, System
from benchmarks.serve.collection import sample_queries
from quoth import __version__
from quoth.records import Document
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents

RESULTS = Path(__file__).parent / "results" / "peers.json"
Passage = tuple[str, str]


def main() -> None:
    """Measure both corpora and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = []
    for name, passages, queries in (
        ("docstrings", *docstrings(given.queries)),
        ("joined sets", *joined(given.data, given.documents, given.queries)),
    ):
        measured = measure(passages, queries, rounds=given.rounds)
        rows.append(
            {"corpus": name, "documents": len(passages), "queries": len(queries), **measured}
        )
        logging.info("%s", json.dumps(rows[-1]))
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[2], 1),
        "rounds": given.rounds,
        "k": K,
        "rows": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def docstrings(count: int) -> tuple[list[Passage], list[str]]:
    """Read Python's docstrings; queries are the first words of some of them."""
    read_all = read_documents(["python:stdlib"], config=ReaderConfig(), report=lambda _each: None)
    passages = [(found.document.docid, _whole(found.document)) for found in read_all]
    seeded = random.Random(0)
    asked = [
        text.split()[: seeded.randint(2, 7)] for _docid, text in seeded.sample(passages, count)
    ]
    return passages, [" ".join(words) for words in asked if words]


def joined(data: Path, documents: int, queries: int) -> tuple[list[Passage], list[str]]:
    """Take texts and test queries of all sets in equal shares, as far as they have them."""
    sets = sorted(path.name for path in data.iterdir())
    sources = [((name, each) for each in read(data / name)) for name in sets]
    mixed = (each for portion in itertools.zip_longest(*sources) for each in portion if each)
    passages = [
        (f"{name}/{document.docid}", _whole(document))
        for name, document in itertools.islice(mixed, documents)
    ]
    return passages, sample_queries(data, sets, count=queries)


def measure(
    passages: Sequence[Passage], queries: Sequence[str], *, rounds: int
) -> dict[str, dict[str, Any]]:
    """Build all systems that are installed, then time them in turns."""
    with tempfile.TemporaryDirectory(prefix="quoth-peers-") as scratch:
        skipped = {name: "not installed" for name in BUILDERS if not _is_installed(name)}
        systems, built = dict[str, System](), dict[str, float]()
        for name in BUILDERS:
            if name not in skipped:
                folder = Path(scratch) / name
                built[name] = _took(lambda n=name, f=folder: BUILDERS[n](iter(passages), f))  # type: ignore[misc]
                systems[name] = OPENERS[name](folder)
                logging.info("built %s in %.1f s", name, built[name])
        return {
            "build_seconds": built,
            "skipped": skipped,
            "find": in_turns({name: each.find for name, each in systems.items()}, queries, rounds),
            "show": in_turns(
                {name: each.show for name, each in systems.items() if each.show}, queries, rounds
            ),
        }


def in_turns(
    systems: dict[str, Callable[[str], list[Any]]], queries: Sequence[str], rounds: int
) -> dict[str, dict[str, float]]:
    """Ask all systems all queries, round by round; the first round warms up and is not counted."""
    took: dict[str, list[float]] = {name: [] for name in systems}
    for _round in range(rounds + 1):
        for name, ask in systems.items():
            took[name].append(_took(lambda a=ask: [a(query) for query in queries]) / len(queries))  # type: ignore[misc]
    counted = {name: each[1:] for name, each in took.items()}
    return {
        name: {
            "first_ms": 1e3 * took[name][0],
            "ms": 1e3 * median(own),
            "over_quoth": median(a / b for a, b in zip(own, counted["quoth"], strict=True)),
        }
        for name, own in counted.items()
    }


def _whole(document: Document) -> str:
    return "\n\n".join(text for texts in document.fields.values() for text in texts)


def _is_installed(name: str) -> bool:
    return name in ("quoth", "fts5") or importlib.util.find_spec(name) is not None


def _took(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
