"""Shards asked flat and through inner routers, and one replica that is slow, on a local Ray.

    python -m benchmarks.cluster.routers [--passages 2000] [--queries 300]

Two comparisons, each of two systems that are served at the same time and asked in turns by one
client. *Routers*: four shards asked by the router itself, and through two inner routers in
processes of their own. *Hedging*: two shards with two replicas each, one of which is stopped for
100 ms twice a second, as a busy machine would; without hedging, and with its default. The router
asks the replica with the fewest questions under way, so that one client asks the same one nearly
every time, which is found by its processor time: that one is stopped, and in a third comparison
the other. Writes results/routers.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import platform
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cluster.build import passages
from benchmarks.cluster.measure import TURN
from benchmarks.serve.collection import sample_queries
from benchmarks.serve.load import quantiles_ms
from quoth import __version__
from quoth.collection.shards import create_shards, open_shards
from quoth.records import Document
from quoth.shards.engine import ShardedEngine
from quoth.shards.ray_serve import open_from_cluster

RESULTS = Path(__file__).parent / "results" / "routers.json"
ROUTERS = {"flat": {"tree_from": 0}, "inner routers": {"tree_from": 2}}
HEDGING = {
    "without hedging": {"replicas": 2, "hedge_share": 0.0},
    "with hedging": {"replicas": 2},
}
STOPPED, BETWEEN = 0.1, 0.4  # seconds

Ask = Callable[[str], object]


def main() -> None:
    """Measure and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--passages", type=int, default=2_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    documents = list(passages(given.data, given.passages))
    sets = sorted(path.name for path in (given.data / "ir").iterdir() if path.is_dir())
    queries = sample_queries(given.data / "ir", sets, count=given.queries)
    content: dict[str, Any] = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "passages": len(documents),
        "queries": len(queries),
        "stopped_ms": 1000 * STOPPED,
        "every_ms": 1000 * (STOPPED + BETWEEN),
    }
    for name, systems, shards, choose in (
        ("routers", ROUTERS, 4, None),
        ("hedging", HEDGING, 2, max),
        ("hedging_other", HEDGING, 2, min),
    ):
        load = os.getloadavg()[0]
        found = compare(systems, documents, queries, shards=shards, choose=choose)
        content[name] = {"shards": shards, "load_before": load, "systems": found}
        logging.info("%s", json.dumps(content[name]))
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def compare(
    systems: Mapping[str, Mapping[str, Any]],
    documents: Sequence[Document],
    queries: Sequence[str],
    *,
    shards: int,
    choose: Callable[..., int] | None,
) -> dict[str, Any]:
    """Serve a collection of its own for each system, and ask all of them in turns.

    `choose` takes a replica of the first shard by its processor time, to be stopped now and then.
    """
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        engines: dict[Path, ShardedEngine] = {}
        for at, own in enumerate(systems.values()):
            folder = Path(scratch) / f"{at}.shards"
            create_shards(folder, count=shards)
            with ShardedEngine.open(folder) as engine:
                engine.add_documents(documents)
            settings = [{"cluster": {"cpus": 0.1, **own}}]
            engines[folder] = stack.enter_context(
                open_from_cluster(folder, "local", settings=settings)
            )
        asks = {
            name: partial(engine.search, k=10, syntax=False, searcher="lexical")
            for name, engine in zip(systems, engines.values(), strict=True)
        }
        for folder, ask in zip(engines, asks.values(), strict=True):
            before = _ticks(folder)
            for text in queries[: 3 * TURN]:  # warm up, and learn what is slow
                ask(text)
            if choose is not None:
                spent = {each: ticks - before[each] for each, ticks in _ticks(folder).items()}
                stack.enter_context(slowed(choose(spent, key=spent.__getitem__)))
        found = time_in_turns(asks, queries)
        for name, engine in zip(systems, engines.values(), strict=True):
            told = [each["questions"] for each in engine.status()["shards"].values()]
            found[name] |= {key: sum(each[key] for each in told) for key in ("hedged", "won")}
        return found


def _ticks(folder: Path) -> dict[int, int]:
    """Return the processor time so far of each replica of the first shard, by its process."""
    name = f"ServeReplica:quoth-{open_shards(folder).identity[:12]}-00000"
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if name in (process / "cmdline").read_text():
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                found[int(process.name)] = int(fields[11]) + int(fields[12])
    return found


@contextmanager
def slowed(process: int) -> Iterator[None]:
    """Stop a process of ours for a moment, again and again, until the block ends."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(BETWEEN):
            os.kill(process, signal.SIGSTOP)
            is_over.wait(STOPPED)
            os.kill(process, signal.SIGCONT)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def time_in_turns(systems: Mapping[str, Ask], queries: Sequence[str]) -> dict[str, Any]:
    """Return quantiles of all times, and the least and largest mean of a turn, in ms."""
    turns: dict[str, list[list[float]]] = {name: [] for name in systems}
    for at in range(0, len(queries), TURN):
        for name, ask in systems.items():
            turns[name].append([_timed(ask, text) for text in queries[at : at + TURN]])
    found = {}
    for name, own in turns.items():
        means = [1000 * statistics.fmean(each) for each in own]
        found[name] = {
            **quantiles_ms([each for turn in own for each in turn]),
            "mean_ms": statistics.fmean(means),
            "least_ms": min(means),
            "most_ms": max(means),
        }
    return found


def _timed(ask: Ask, text: str) -> float:
    begun = time.perf_counter()
    ask(text)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
