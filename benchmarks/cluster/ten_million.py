"""Ten million passages in four shards on one machine, step by step.

    python -m benchmarks.cluster.ten_million FOLDER [--passages 10000000] [--shards 4]

FOLDER takes the collection (about 25 GB at ten million). `rounds.py` says how the passages are
made. They are added round by round, so that a cost which grows with the collection shows. Each step
is a process of its own, and is written to results/ten_million.json when it is done; a second start
goes on with the first step that is missing. A step that was killed midway is done again, and finds
what it had written.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import resource
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cluster.build import WORDS, disk_megabytes
from benchmarks.cluster.rounds import passages_of_round
from benchmarks.lexical.speed import peak_megabytes
from quoth import __version__
from quoth.collection.shards import create_shards
from quoth.shards.engine import ShardedEngine

RESULTS = Path(__file__).parent / "results" / "ten_million.json"
ROUNDS = 10
_WATCH_SECONDS = 0.5

Step = Callable[[], dict[str, Any]]


def main() -> None:
    """Do the steps that were not done yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--passages", type=int, default=10_000_000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--steps", default="", help="only these, in their usual order")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    results = read_results(given.out, passages=given.passages, shards=given.shards)
    wanted = given.steps.split(",") if given.steps else None
    for name, step in list_steps(given).items():
        if name not in results["steps"] and (wanted is None or name in wanted):
            results["steps"][name] = run_apart(name, step, given.folder)
            given.out.write_text(json.dumps(results, indent=1) + "\n")


def list_steps(given: argparse.Namespace) -> dict[str, Step]:
    """List all steps in their order."""
    shards = given.folder / "shards.quoth"
    count = given.passages // ROUNDS
    adding = {
        f"add-{number}": partial(
            add_round, shards, given.data, number, count=count, num_shards=given.shards
        )
        for number in range(ROUNDS)
    }
    return {**adding}


def add_round(
    folder: Path, data: Path, number: int, *, count: int, num_shards: int
) -> dict[str, Any]:
    """Add the passages of one round; the first makes the collection."""
    if not folder.exists():
        create_shards(folder, count=num_shards)
    with ShardedEngine.open(folder) as engine:
        begun = time.perf_counter()
        written = engine.add_documents(passages_of_round(data, number, count))
        seconds = time.perf_counter() - begun
    return {"added": written.added, "unchanged": written.unchanged, "adding_seconds": seconds}


def run_apart(name: str, step: Step, folder: Path) -> dict[str, Any]:
    """Run a step in a process of its own; gives its result, time, work, memory and disk."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    folder.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    process = context.Process(target=_run, args=(step, send))
    process.start()
    send.close()
    try:
        found: dict[str, Any] = receive.recv()
    except EOFError:
        raise SystemExit(f"{name} failed; start again to go on from it") from None
    finally:
        process.join()
    row = {**found, "disk_mb": disk_megabytes(folder), "load_before": load, "commit": _commit()}
    logging.info("%s: %s", name, row)
    return row


def _run(step: Step, send: Any) -> None:
    """Run a step in this process and watch its memory."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    watch = _Watch()
    watch.start()
    begun = time.perf_counter()
    found = step()
    seconds = time.perf_counter() - begun
    watch.stop()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    send.send(
        {
            **found,
            "seconds": seconds,
            "cpu_seconds": sum(each.ru_utime + each.ru_stime for each in used),
            "peak_mb": peak_megabytes(),
            "peak_own_mb": watch.peak_mb,
        }
    )


class _Watch(threading.Thread):
    """Notes the most memory of its own that this process has, mapped files not counted."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self._done = threading.Event()

    def run(self) -> None:
        """Look from time to time."""
        while not self._done.wait(_WATCH_SECONDS):
            self.peak_mb = max(self.peak_mb, own_megabytes())

    def stop(self) -> None:
        """Look once more, and end."""
        self._done.set()
        self.join()
        self.peak_mb = max(self.peak_mb, own_megabytes())


def own_megabytes() -> float:
    """Read the memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return peak_megabytes()


def read_results(path: Path, *, passages: int, shards: int) -> dict[str, Any]:
    """Read the steps that were done, unless they are of another size."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if (known.get("passages"), known.get("shards")) == (passages, shards):
        return known
    return {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {multiprocessing.cpu_count()} cores",
        "passages": passages,
        "shards": shards,
        "rounds": ROUNDS,
        "words": WORDS,
        "steps": {},
    }


def _commit() -> str:
    """Name the commit that this runs from."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return made.stdout.strip()


if __name__ == "__main__":
    main()
