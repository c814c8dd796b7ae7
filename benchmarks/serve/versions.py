"""Requests a second of this version and of an earlier one, in turns on one machine.

    git worktree add EARLIER COMMIT
    python -m benchmarks.serve.versions EARLIER [--data ../shared/data/ir] [--rounds 5]

Figures of two machines cannot be compared, so a ratio between versions is measured here. Each
version builds its own collection of all sets joined, by its own code in its own checkout, and
serves it with its own defaults; the libraries are those installed here. In each round every version
is started anew, warmed up, and asked by 1, 4 and 8 clients, by BM25, k = 10, the same queries.
Figures are medians of rounds, ratios medians of what the two gave in a round. Writes
results/versions.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.serve.collection import sample_queries
from benchmarks.serve.process import Server, put_load, serving

RESULTS = Path(__file__).parent / "results" / "versions.json"
CLIENTS = (1, 4, 8)
_BUILD = """
import sys
from pathlib import Path
from benchmarks.serve.collection import make_collection
data = Path(sys.argv[1])
sets = sorted(path.name for path in data.iterdir())
print(make_collection(data, sets, vectors=None).resolve())
"""


def main() -> None:
    """Measure both versions and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("earlier", type=Path, help="A checkout of the earlier version.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    data = given.data.resolve()
    checkouts = {"earlier": given.earlier.resolve(), "now": Path.cwd()}
    collections = {name: build(folder, data) for name, folder in checkouts.items()}
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as scratch:
        queries = Path(scratch) / "queries.jsonl"
        drawn = sample_queries(data, sorted(each.name for each in data.iterdir()), count=2_000)
        queries.write_text("".join(f"{json.dumps(text)}\n" for text in drawn))
        for number in range(given.rounds):
            order = list(checkouts) if number % 2 == 0 else list(reversed(checkouts))
            own = {}
            for name in order:
                log = Path(scratch) / f"{name}.log"
                with started(checkouts[name], collections[name], log) as server:
                    own[name] = ask(server, queries, seconds=given.seconds)
                logging.info("%s %s", name, own[name])
            rounds.append(own)
    commits = {name: commit_of(folder) for name, folder in checkouts.items()}
    given.out.write_text(json.dumps(sum_up(rounds, commits), indent=1) + "\n")


def build(checkout: Path, data: Path) -> Path:
    """Let a version build its collection, unless it has it already."""
    command = [sys.executable, "-c", _BUILD, str(data)]
    done = subprocess.run(
        command,
        cwd=checkout,
        env=_environment(checkout),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.splitlines()[-1])


@contextmanager
def started(checkout: Path, collection: Path, log: Path) -> Iterator[Server]:
    """Serve by the code of a checkout."""
    with ExitStack() as stack:
        with mock.patch.dict(os.environ, _environment(checkout)):
            server = stack.enter_context(serving(collection, log, program=program_of(checkout)))
        yield server


def program_of(checkout: Path) -> list[str]:
    """Return what starts `quoth` of a checkout, by the entry that it declares."""
    declared = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = declared["quoth"].partition(":")
    return [sys.executable, "-c", f"from {module} import {function}; {function}()"]


def ask(server: Server, queries: Path, *, seconds: float) -> dict[str, float]:
    """Return requests a second by number of clients, after a warm-up."""
    put_load(server, queries, "closed", clients=4, seconds=seconds / 2, searcher="lexical")
    return {
        str(clients): put_load(
            server, queries, "closed", clients=clients, seconds=seconds, searcher="lexical"
        ).record["throughput"]
        for clients in CLIENTS
    }


def sum_up(
    rounds: Sequence[Mapping[str, Mapping[str, float]]], commits: Mapping[str, str]
) -> dict[str, Any]:
    """Return medians, and the ratio of the best that either version gave in a round.

    >>> rounds = [{"earlier": {"1": 2.0, "4": 4.0}, "now": {"1": 8.0, "4": 16.0}}]
    >>> sum_up(rounds, {})["best_ratio"]
    4.0
    """
    counts = list(rounds[0]["now"])
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "commits": dict(commits),
        "rounds": len(rounds),
        "throughput": {
            name: {each: round(median(own[name][each] for own in rounds), 1) for each in counts}
            for name in ("earlier", "now")
        },
        "ratio": {
            each: round(median(own["now"][each] / own["earlier"][each] for own in rounds), 2)
            for each in counts
        },
        "best_ratio": round(
            median(max(own["now"].values()) / max(own["earlier"].values()) for own in rounds), 2
        ),
    }


def commit_of(checkout: Path) -> str:
    """Name the commit that a checkout is at."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}


if __name__ == "__main__":
    main()
