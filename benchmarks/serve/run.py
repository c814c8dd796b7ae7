"""A served collection under load, beside the same engine in process.

    python -m benchmarks.serve.run [--sets scifact,cranfield] [--seconds 10] [--lexical]

Builds the collection once (`collection.py`), starts `quoth serve`, and measures in this order: one
client in turns with the engine in this process; 1 to 64 clients; a writer with a reader that checks
what it sees, under load; four times the sustainable load, and how soon one client is answered as
before. The load always comes from another process. Writes results/serve.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.serve.changes import write_and_watch
from benchmarks.serve.collection import CACHE, make_collection, sample_queries
from benchmarks.serve.load import quantiles_ms
from benchmarks.serve.process import Server, put_load, serving
from quoth import Client, __version__
from quoth.engine.engine import Engine
from quoth.errors import QuothError
from quoth.records import SearchRequest
from quoth.server.monitoring.timings import StageTimes
from quoth.server.workers.models import share_engine

RESULTS = Path(__file__).parent / "results" / "serve.json"
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
OVERLOAD = 4.0
TURN = 25  # queries before the other side has its turn
_UNITS = Path("benchmarks/.cache/units")
_VECTORS = Path("benchmarks/.cache/vec")


def main() -> None:
    """Measure everything and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--lexical", action="store_true", help="BM25 alone, without vectors")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sets = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    vectors = None if given.lexical else (_UNITS, _VECTORS)
    folder = make_collection(given.data, sets, vectors=vectors)
    queries = sample_queries(given.data, sets, count=given.queries)
    searchers = ["lexical"] if given.lexical else ["lexical", "hybrid"]
    content = measure(folder, queries, searchers=searchers, seconds=given.seconds)
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps({"sets": sets, **content}, indent=1) + "\n")


def measure(
    folder: Path, queries: Sequence[str], *, searchers: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Measure one collection."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch, Engine.open(folder) as engine:
        status = engine.status()
        path = Path(scratch) / "queries.jsonl"
        path.write_text("".join(f"{json.dumps(text)}\n" for text in queries))
        with serving(folder, CACHE / "server.log") as server:
            idle = server.memory()
            content: dict[str, Any] = {
                "turns": [
                    compare(server, engine, queries, searcher=name, seconds=seconds)
                    for name in searchers
                ],
                "steps": [
                    step(server, path, searcher=name, clients=clients, seconds=seconds)
                    for name in searchers
                    for clients in CLIENTS
                ],
                "changes": change(server, path, searcher=searchers[-1], seconds=seconds),
            }
            content["overload"] = overload(server, path, content["steps"], seconds=seconds)
            content["memory"] = {"idle_mb": idle["now_mb"], **server.memory()}
        content["exit_code"] = server.process.returncode
    return {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {multiprocessing.cpu_count()} cores",
        "load_before": load_before,
        "documents": status["documents"],
        "passages": status["passages"],
        "vectors": status["indexes"].get("dense", {}).get("vectors", 0),
        "queries": len(queries),
        **content,
    }


def compare(
    server: Server, engine: Engine, queries: Sequence[str], *, searcher: str, seconds: float
) -> dict[str, Any]:
    """Answer the same queries over HTTP and in process, in turns, until the time is up.

    *shown* is what the server does for a request, without HTTP; *searched* is the same without
    snippets.
    """
    times: dict[str, list[float]] = {"served": [], "shown": [], "searched": []}
    with Client(server.url) as client, share_engine(engine, StageTimes())() as worker:
        systems: dict[str, Callable[[str], object]] = {
            "served": lambda text: client.search(text, searcher=searcher),
            "shown": lambda text: worker.find(SearchRequest(text, searcher=searcher)),
            "searched": lambda text: engine.search(text, searcher=searcher),
        }
        for search in systems.values():
            search(queries[0])  # warm up
        end = time.perf_counter() + 2 * seconds
        for at in range(0, len(queries), TURN):
            for name, search in systems.items():
                times[name] += [_timed(search, text) for text in queries[at : at + TURN]]
            if time.perf_counter() > end:
                break
    found = {name: quantiles_ms(each) for name, each in times.items()}
    ratios = {
        f"p50_over_{name}": found["served"]["p50_ms"] / found[name]["p50_ms"]
        for name in ("shown", "searched")
    }
    logging.info("%s, one client: %s", searcher, ratios)
    return {"searcher": searcher, "queries": len(times["served"]), **found, **ratios}


def _timed(search: Callable[[str], object], text: str) -> float:
    begun = time.perf_counter()
    search(text)
    return time.perf_counter() - begun


def step(
    server: Server, queries: Path, *, searcher: str, clients: int, seconds: float
) -> dict[str, Any]:
    """Keep so many clients busy for a while."""
    load = put_load(server, queries, "closed", clients=clients, seconds=seconds, searcher=searcher)
    found = load.record
    logging.info("%s, %d clients: %.0f a second", searcher, clients, found["throughput"])
    return {"searcher": searcher, "clients": clients, **found, "memory": server.memory()}


def change(server: Server, queries: Path, *, searcher: str, seconds: float) -> dict[str, Any]:
    """Change documents and check what is seen, while four clients search."""
    load: dict[str, Any] = {}

    def run() -> None:
        put = put_load(server, queries, "closed", clients=4, seconds=seconds, searcher=searcher)
        load.update(put.record)

    thread = threading.Thread(target=run)
    thread.start()
    found = write_and_watch(server.url, seconds=seconds)
    thread.join()
    logging.info(
        "%d writes, %d reads, faults: %s", found["writes"], found["reads"], found["faults"]
    )
    return {**found, "searcher": searcher, "load": load}


def overload(
    server: Server, queries: Path, steps: Sequence[dict[str, Any]], *, seconds: float
) -> dict[str, Any]:
    """Ask for four times what the server sustains, then see how soon it is itself again.

    Sustained is the best throughput of any number of clients of which none was refused.
    """
    searcher = steps[-1]["searcher"]
    own = [each for each in steps if each["searcher"] == searcher]
    sustained = max(
        each["throughput"] for each in own if not each["refused"] and not each["errors"]
    )
    rate = OVERLOAD * sustained
    load = put_load(server, queries, "open", rate=rate, seconds=seconds, searcher=searcher)
    waited = recover(server, queries, searcher=searcher, usual_ms=own[0]["p95_ms"])
    recovery = waited - load.last_sent
    statuses = load.record["statuses"]
    logging.info("overload: %s; answered as before after %.2f s", statuses, recovery)
    return {
        "searcher": searcher,
        "sustained": sustained,
        "rate": rate,
        **load.record,
        "recovery_seconds": recovery,
        "survived": server.is_alive,
    }


def recover(server: Server, queries: Path, *, searcher: str, usual_ms: float) -> float:
    """Ask one query after another until ten in a row take at most twice the usual p95.

    Gives the time of day when those ten began; after a minute, that of giving up.
    """
    texts = [json.loads(line) for line in queries.read_text().splitlines()[:200]]
    begun, row_begun, in_a_row = time.perf_counter(), time.time(), 0
    with Client(server.url, retries=0) as client:
        for at in range(10_000):
            asked = time.perf_counter()
            try:
                client.search(texts[at % len(texts)], searcher=searcher)
                is_usual = (time.perf_counter() - asked) * 1000 <= 2 * usual_ms
            except QuothError:
                is_usual = False
            if not is_usual:
                in_a_row, row_begun = 0, time.time()
            else:
                in_a_row += 1
            if in_a_row == 10 or asked - begun > 60:
                break
    return row_begun


if __name__ == "__main__":
    main()
