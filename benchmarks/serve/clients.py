"""A served collection with 1, 2, 4 and 8 clients, in turns, and at four times what it sustains.

    python -m benchmarks.serve.clients [--rounds 5] [--seconds 4] [--encoded scifact,cisi]

All sets joined are searched by BM25; sets named by `--encoded` are encoded first, which takes long
without vectors made elsewhere, and searched by BM25 and vectors; `--mixed` does so with all sets,
whose vectors then cost what real ones cost and mean nothing. Each round puts every number of
clients on the server once, then queries at four times the best rate of that round, so that a slow
minute of the machine hits all; figures are medians over rounds, ratios medians of what one round
gave. What a request costs the server is told in processor time, which a busy machine changes least.
The load runs on the same cores: what it takes of them is told as well, and so is what the server
takes, for the goodput is what the two leave. Rows that are not measured again are kept. Writes
results/clients.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lexical.quality import read
from benchmarks.serve.collection import CACHE, make_collection, sample_queries
from benchmarks.serve.mixed import mixed_collection
from benchmarks.serve.process import Server, put_load, serving
from quoth import __version__
from quoth.engine.engine import Engine

RESULTS = Path(__file__).parent / "results" / "clients.json"
CLIENTS = (1, 2, 4, 8)
OVERLOAD = 4.0
MEASURES = ("throughput", "p50_ms", "p99_ms", "processor_ms", "load_ms")


def main() -> None:
    """Measure what was asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--encoded", default="")
    parser.add_argument("--mixed", action="store_true", help="all sets, with made-up vectors")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    every = sorted(path.name for path in given.data.iterdir())
    some = [name for name in given.encoded.split(",") if name]
    served = [("lexical", every, make_collection(given.data, every, vectors=None))]
    if some:
        served.append(("hybrid", some, encoded_collection(given.data, some)))
    if given.mixed:
        served.append(("hybrid", every, mixed_collection(given.data, every)))
    rows = []
    for searcher, sets, folder in served:
        documents = sum(1 for name in sets for _document in read(given.data / name))
        queries = sample_queries(given.data, sets, count=2_000)
        found = measure(
            folder, queries, searcher=searcher, rounds=given.rounds, seconds=given.seconds
        )
        rows.append({"searcher": searcher, "sets": len(sets), "documents": documents, **found})
    measured = [(row["searcher"], row["documents"]) for row in rows]
    known = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    rows += [row for row in known if (row["searcher"], row["documents"]) not in measured]
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "rounds": given.rounds,
        "seconds": given.seconds,
        "rows": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def encoded_collection(data: Path, sets: Sequence[str]) -> Path:
    """Build a collection of these sets without vectors, then encode it, unless that is done."""
    folder = make_collection(data, sets, vectors=None)
    marker = folder.with_suffix(".encoded")
    if not marker.exists():
        with Engine.open(folder) as engine:
            engine.encode()
        marker.touch()
    return folder


def measure(
    folder: Path, queries: Sequence[str], *, searcher: str, rounds: int, seconds: float
) -> dict[str, Any]:
    """Put every number of clients on a server in turns, then more than it can do."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "queries.jsonl"
        path.write_text("".join(f"{json.dumps(text)}\n" for text in queries))
        with serving(folder, CACHE / "clients.log") as server:
            for clients in (1, max(CLIENTS)):  # warms up, every process of the server
                step(server, path, searcher=searcher, clients=clients, seconds=seconds)
            done, over = [], []
            for _round in range(rounds):
                own = {
                    clients: step(server, path, searcher=searcher, clients=clients, seconds=seconds)
                    for clients in CLIENTS
                }
                best = max(each["throughput"] for each in own.values())
                done.append(own)
                over.append(overload(server, path, searcher=searcher, best=best, seconds=seconds))
    steps = [summary(clients, [each[clients] for each in done]) for clients in CLIENTS]
    return {
        "load": [load_before, os.getloadavg()[0]],
        "steps": steps,
        "four_over_one": median(each[4]["throughput"] / each[1]["throughput"] for each in done),
        "best": max(each["throughput"] for each in steps),
        "overload": {
            "rate": median(each["rate"] for each in over),
            "answered_share_of_best": median(each["share_of_best"] for each in over),
            "lowest_and_highest": [
                extreme(each["share_of_best"] for each in over) for extreme in (min, max)
            ],
            "p99_ms": median(each["p99_ms"] for each in over),
            "refused": sum(each["refused"] for each in over),
            "errors": sum(each["errors"] for each in over),
            "sent": sum(each["sent"] for each in over),
            "server_cores": median(each["server_seconds"] / each["seconds"] for each in over),
            "load_cores": median(each["processor_seconds"] / each["seconds"] for each in over),
        },
    }


def step(
    server: Server, queries: Path, *, searcher: str, clients: int, seconds: float
) -> dict[str, Any]:
    """Keep so many clients busy for a while."""
    before = server.processor_seconds()
    load = put_load(server, queries, "closed", clients=clients, seconds=seconds, searcher=searcher)
    spent = server.processor_seconds() - before
    each = 1e3 / max(1, load.record["answered"])
    costs = {"processor_ms": spent * each, "load_ms": load.record["processor_seconds"] * each}
    found = {**load.record, **costs}
    logging.info("%s, %d clients: %s", searcher, clients, {key: found[key] for key in MEASURES})
    return found


def summary(clients: int, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Take medians over rounds, and sums of what was not answered."""
    return {
        "clients": clients,
        **{key: median(each[key] for each in rounds) for key in MEASURES},
        "refused": sum(each["refused"] for each in rounds),
        "errors": sum(each["errors"] for each in rounds),
    }


def overload(
    server: Server, queries: Path, *, searcher: str, best: float, seconds: float
) -> dict[str, Any]:
    """Ask for four times the best rate, whether or not answers come."""
    rate, before = OVERLOAD * best, server.processor_seconds()
    load = put_load(server, queries, "open", rate=rate, seconds=seconds, searcher=searcher)
    found = {
        **load.record,
        "rate": rate,
        "share_of_best": load.record["throughput"] / best,
        "server_seconds": server.processor_seconds() - before,
    }
    logging.info("overload: %s", found)
    return found


if __name__ == "__main__":
    main()
