"""What asking many shards costs: flat and as a tree, beside what tantivy itself takes.

    python -m benchmarks.cluster.routing [--passages 50000] [--shards 4,36] [--queries 200]

The same passages in one piece and in shards, all in this process, on the same queries in turns;
processor time per search. *floor*: tantivy alone, the best of the whole index beside the best of
each shard's, with the queries parsed beforehand: what shards cost whoever asks them, since a
search of a quarter of the documents takes more than a quarter of the work. Writes
results/routing.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cluster.build import PLAIN, build, folder_of
from benchmarks.cluster.measure import TURN
from benchmarks.serve.collection import sample_queries
from quoth import __version__
from quoth.collection.shards import open_shards
from quoth.engine.engine import Engine
from quoth.records import Query
from quoth.search.group import GroupPort, arrange_groups
from quoth.search.lexical.searcher import LexicalSearcher
from quoth.shards.engine import ShardedEngine
from quoth.shards.port import LocalPort

RESULTS = Path(__file__).parent / "results" / "routing.json"
K = 10

Ask = Callable[[str], object]


def main() -> None:
    """Measure and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--passages", type=int, default=50_000)
    parser.add_argument("--shards", default="4,36")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    counts = [int(each) for each in given.shards.split(",")]
    for system in [PLAIN, *(f"shards-{count}" for count in counts)]:
        build(given.data, given.passages, system)
    sets = sorted(path.name for path in (given.data / "ir").iterdir() if path.is_dir())
    queries = sample_queries(given.data / "ir", sets, count=given.queries)
    found = measure(given.passages, counts, queries)
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "passages": given.passages,
        "queries": len(queries),
        **found,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    logging.info("%s", json.dumps(found, indent=1))


def measure(passages: int, counts: Sequence[int], queries: Sequence[str]) -> dict[str, Any]:
    """Ask all systems in turns."""
    with ExitStack() as stack:
        plain = stack.enter_context(Engine.open(folder_of(passages, PLAIN)))
        searches: dict[str, Ask] = {PLAIN: _searching(plain)}
        floors: dict[str, Ask] = {PLAIN: _floor([plain], stack)}
        for count in counts:
            folder = folder_of(passages, f"shards-{count}")
            shards = open_shards(folder)
            ports = [LocalPort.open(path) for path in shards.shards]
            groups = [
                GroupPort(at, [ports[each] for each in own], shard_of=shards.shard_of)
                for at, own in enumerate(arrange_groups(count))
            ]
            for name, asked in (("flat", ports), ("tree", groups)):
                engine = stack.enter_context(ShardedEngine.open(folder, ports=asked))  # type: ignore[arg-type]
                searches[f"{count} shards, {name}"] = _searching(engine)
            floors[f"{count} shards"] = _floor([port.engine for port in ports], stack)
        load = os.getloadavg()[0]
        return {
            "load_before": load,
            "search": _work_in_turns(searches, queries),
            "floor": _work_in_turns(floors, queries),
        }


def _searching(engine: Engine | ShardedEngine) -> Ask:
    return partial(engine.search, k=K, syntax=False, searcher="lexical")


def _floor(engines: Sequence[Engine], stack: ExitStack) -> Ask:
    """Return what asks tantivy alone; queries are parsed once, when first seen."""
    lexical: list[LexicalSearcher] = []
    for engine in engines:
        engine.search("owl", k=1)
        lexical.append(engine._searchers.lexical(syntax=False))
    parsed: dict[str, Any] = {}
    depth = K if len(lexical) == 1 else K + 1

    def ask(text: str) -> None:
        if text not in parsed:
            parsed[text] = lexical[0].parse(Query("", text))
        for each in lexical:
            each._opened().top_k(parsed[text], depth, allowed=None)

    return ask


def _work_in_turns(systems: dict[str, Ask], queries: Sequence[str]) -> dict[str, Any]:
    """Return the processor time of a search, the median over turns, and how often plain's it is."""
    spent: dict[str, list[float]] = {name: [] for name in systems}
    for ask in systems.values():
        for text in queries:  # warm up, and fill what is kept
            ask(text)
    for at in range(0, len(queries), TURN):
        some = queries[at : at + TURN]
        for name, ask in systems.items():
            begun = time.process_time()
            for text in some:
                ask(text)
            spent[name].append(1000 * (time.process_time() - begun) / len(some))
    ratios = {
        name: [own / plain for own, plain in zip(each, spent[PLAIN], strict=True)]
        for name, each in spent.items()
    }
    return {
        name: {
            "cpu_ms": statistics.fmean(own),
            "over_plain": statistics.fmean(own) / statistics.fmean(spent[PLAIN]),
            "least": min(ratios[name]),
            "most": max(ratios[name]),
        }
        for name, own in spent.items()
    }


if __name__ == "__main__":
    main()
