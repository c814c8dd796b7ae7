"""A server under more than it can do, and under requests that are meant to stall it.

    python -m benchmarks.serve.pressure [--documents 60000] [--seconds 10]

Builds a collection with metadata once, starts `quoth serve`, and measures in this order: what it
sustains; 256 clients who ask four times as much, beside a probe of liveness, and how soon one
client is answered as before; normal traffic alone and beside four clients whose conditions cost as
much as conditions may, in turns; 500 idle and 500 half-sent connections, and whether new clients
are served. Loads come from other processes. Writes results/pressure.json.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.lexical.quality import read
from benchmarks.serve.collection import CACHE, sample_queries
from benchmarks.serve.load import quantiles_ms
from benchmarks.serve.process import Server, put_load, serving
from benchmarks.serve.run import recover
from quoth import Client, __version__
from quoth.collection.filter_syntax import MAX_TESTS
from quoth.engine.engine import Engine
from quoth.records import Document

RESULTS = Path(__file__).parent / "results" / "pressure.json"
CLIENTS = 256
OVERLOAD = 4.0
HOSTILE = 4
TURNS = 5
IDLE = 500
_LANGUAGES = ("en", "de", "fr", "it", "pl")


def main() -> None:
    """Measure everything and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sets = sorted(path.name for path in given.data.iterdir())
    folder = make_collection(given.data, sets, count=given.documents)
    queries = sample_queries(given.data, sets, count=2_000)
    content = measure(folder, queries, seconds=given.seconds)
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def make_collection(data: Path, sets: Sequence[str], *, count: int) -> Path:
    """Build a collection of real texts with made-up metadata, unless it is there."""
    folder = CACHE / f"pressure-{count}.quoth"
    marker = folder.with_suffix(".complete")
    if not marker.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with Engine.open(folder) as engine:
            engine.add_documents(itertools.islice(_documents(data, sets), count))
        marker.touch()
    return folder


def _documents(data: Path, sets: Sequence[str]) -> Iterator[Document]:
    """Yield documents in turns of the sets, so that a part of them is of all."""
    sources = [(name, iter(read(data / name))) for name in sets]
    while sources:
        for name, source in tuple(sources):
            document = next(source, None)
            if document is None:
                sources.remove((name, source))
                continue
            chance = zlib.crc32(f"{name}/{document.docid}".encode())
            metadata = {
                "year": 1950 + chance % 75,
                "lang": _LANGUAGES[chance % 7 % 5],
                "set": name,
                "number": chance % 100_003,
                "note": f"note {chance % 1_009} of {name}",
            }
            yield replace(document, docid=f"{name}/{document.docid}", metadata=metadata)


def measure(folder: Path, queries: Sequence[str], *, seconds: float) -> dict[str, Any]:
    """Measure one collection."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "queries.jsonl"
        path.write_text("".join(f"{json.dumps(text)}\n" for text in queries))
        hostile = Path(scratch) / "hostile.jsonl"
        hostile.write_text("".join(f"{json.dumps(body)}\n" for body in hostile_bodies()))
        load_before = os.getloadavg()[0]
        with serving(folder, CACHE / "pressure.log") as server:
            usual = put_load(server, path, "closed", clients=1, seconds=seconds, searcher="lexical")
            sustained = put_load(
                server, path, "closed", clients=8, seconds=seconds, searcher="lexical"
            )
            content = {
                "sustained": sustained.record,
                "crowd": crowd(
                    server,
                    path,
                    rate=OVERLOAD * sustained.record["throughput"],
                    seconds=seconds,
                    usual_ms=usual.record["p95_ms"],
                ),
                "where": beside_hostile(server, path, hostile, seconds=seconds),
                "connections": crowd_connections(server),
            }
        content["exit_code"] = server.process.returncode
    return {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {multiprocessing.cpu_count()} cores",
        "load_before": load_before,
        "documents": int(folder.stem.rpartition("-")[2]),
        **content,
    }


def crowd(
    server: Server, queries: Path, *, rate: float, seconds: float, usual_ms: float
) -> dict[str, Any]:
    """Let 256 clients ask at a rate, and look whether the server says that it lives."""
    with probing(server, seconds=seconds) as probe:
        load = put_load(
            server,
            queries,
            "crowd",
            clients=CLIENTS,
            rate=rate,
            seconds=seconds,
            searcher="lexical",
        )
        waited = recover(server, queries, searcher="lexical", usual_ms=usual_ms)
        liveness = json.loads(probe.communicate()[0])
    recovery = max(0.0, waited - load.last_sent)
    logging.info("crowd: %s; live %s; recovered after %.2f s", load.record, liveness, recovery)
    return {"rate": rate, **load.record, "liveness": liveness, "recovery_seconds": recovery}


@contextlib.contextmanager
def probing(server: Server, *, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Ask for liveness every 50 ms from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.serve.probe", server.url, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process


def hostile_bodies() -> Iterator[dict[str, Any]]:
    """Write searches whose conditions have as many tests as they may, each of another kind."""
    for at in range(50):
        tests = [
            f"number > {at * 997 % 50_000}",
            f"not (year != {1950 + at})",
            f'note contains "{at % 10}"',
            f'lang in ("{_LANGUAGES[at % 5]}", "xx")',
            f"not (set exists and number < {at * 31})",
        ]
        many = [f"({each} or number != {at * 7 + n})" for n, each in enumerate(tests * MAX_TESTS)]
        joined, parts = 0, []
        for each in many:
            tests_of_each = each.count(" exists") + sum(map(each.count, (" > ", " < ", "!=")))
            tests_of_each += each.count(" contains ") + each.count(" in ")
            if joined + tests_of_each > MAX_TESTS:
                break
            joined += tests_of_each
            parts.append(each)
        where = [" and ".join(parts[at : at + 8]) for at in range(0, len(parts), 8)]
        yield {"query": "information about the results", "k": 10, "where": where}


def beside_hostile(
    server: Server, queries: Path, hostile: Path, *, seconds: float
) -> dict[str, Any]:
    """Put normal traffic on the server, alone and beside hostile conditions, in turns."""
    found: dict[str, list[dict[str, Any]]] = {"alone": [], "beside": [], "hostile": []}
    each = max(2.0, seconds / 2)
    options: dict[str, float | str] = {"clients": 2, "seconds": each, "searcher": "lexical"}
    for _turn in range(TURNS):
        found["alone"].append(put_load(server, queries, "closed", **options).record)
        command = [sys.executable, "-m", "benchmarks.serve.load", server.url, str(hostile)]
        command += ["closed", "--clients", str(HOSTILE), "--seconds", str(each + 1), "--raw"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attack:
            time.sleep(0.5)
            found["beside"].append(put_load(server, queries, "closed", **options).record)
            found["hostile"].append(json.loads(attack.communicate()[0]))
    p99 = {name: sorted(each["p99_ms"] for each in found[name]) for name in ("alone", "beside")}
    ratio = p99["beside"][TURNS // 2] / p99["alone"][TURNS // 2]
    logging.info("normal p99 beside hostile conditions: %.2f times", ratio)
    return {**found, "p99_ratio": ratio}


def crowd_connections(server: Server) -> dict[str, Any]:
    """Open idle and half-sent connections, and see whether new clients are served."""
    host, port = server.url.removeprefix("http://").split(":")
    half = f"POST /search HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n".encode()
    with contextlib.ExitStack() as stack:
        for number in range(2 * IDLE):
            connection = socket.create_connection((host, int(port)), timeout=10)
            stack.callback(connection.close)
            if number % 2:
                connection.sendall(half)
        seconds = []
        for _client in range(50):
            begun = time.perf_counter()
            with Client(server.url, retries=0) as client:
                client.search("information", searcher="lexical")
            seconds.append(time.perf_counter() - begun)
    logging.info("new clients beside 1,000 connections: %s", quantiles_ms(seconds))
    return {"idle": IDLE, "half_sent": IDLE, "served": len(seconds), **quantiles_ms(seconds)}


if __name__ == "__main__":
    main()
