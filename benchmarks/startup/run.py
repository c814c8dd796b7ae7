"""Processor time of fresh processes: `import quoth`, `quoth --help`, cold searches and answers.

    python -m benchmarks.startup.run [--rounds 7]

Each runs in a process of its own, in turns with an empty Python, over several rounds; what counts
is the median of user and system time; wall time stands beside it, with the load of the machine.
The collections are Python's docstrings, and those of asyncio with vectors. Writes
results/startup.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from quoth import __version__

RESULTS = Path(__file__).parent / "results" / "startup.json"


def main() -> None:
    """Measure everything and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quoth-startup-") as scratch:
        collection = str(Path(scratch) / "python.quoth")
        quoth = [sys.executable, "-c", "from quoth.cli.main import main; main()"]
        subprocess.run(
            [*quoth, "add", "--no-encode", collection, "python:stdlib"],
            check=True,
            capture_output=True,
        )
        encoded = str(Path(scratch) / "asyncio.quoth")
        subprocess.run(
            [*quoth, "add", "--no-encode", encoded, "python:asyncio"],
            check=True,
            capture_output=True,
        )
        subprocess.run([*quoth, "encode", encoded], check=True, capture_output=True)
        query, question = "wait until a task has finished", "How do I wait for a task to finish?"
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "import quoth": [sys.executable, "-c", "import quoth"],
            "import Engine": [sys.executable, "-c", "from quoth import Engine"],
            "quoth --help": [*quoth, "--help"],
            "search by BM25": [*quoth, "search", collection, "walk a directory tree"],
            "hybrid search": [*quoth, "search", encoded, query, "--with", "hybrid"],
            "hybrid search, reranked": [*quoth, "search", encoded, query],
            "ask by BM25": [*quoth, "ask", collection, question],
            "ask, reranked": [*quoth, "ask", encoded, question],
        }
        took: dict[str, list[Took]] = {name: [] for name in commands}
        load = []
        for _round in range(given.rounds):
            load.append(os.getloadavg()[0])
            for name, command in commands.items():
                took[name].append(seconds(command))
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "rounds": given.rounds,
        "load": median(load),
        "seconds": {name: median(one.cpu for one in each) for name, each in took.items()},
        "wall_seconds": {name: median(one.wall for one in each) for name, each in took.items()},
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


class Took(NamedTuple):
    """Seconds of the processors, and of the clock."""

    cpu: float
    wall: float


def seconds(command: Sequence[str]) -> Took:
    """Run a command and return the time that it took."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


if __name__ == "__main__":
    main()
