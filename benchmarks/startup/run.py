"""Processor time of fresh processes: `import quoth`, `quoth --help`, a cold `quoth search`.

    python -m benchmarks.startup.run [--rounds 7]

Each runs in a process of its own, in turns with an empty Python, over several rounds; what counts
is the median of user and system time. The collection is Python's docstrings, made for it. Writes
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
from collections.abc import Sequence
from pathlib import Path
from statistics import median

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
            [*quoth, "add", collection, "python:stdlib"], check=True, capture_output=True
        )
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "import quoth": [sys.executable, "-c", "import quoth"],
            "import Engine": [sys.executable, "-c", "from quoth import Engine"],
            "quoth --help": [*quoth, "--help"],
            "quoth search": [*quoth, "search", collection, "walk a directory tree"],
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        for _round in range(given.rounds):
            for name, command in commands.items():
                took[name].append(seconds(command))
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "rounds": given.rounds,
        "seconds": {name: median(each) for name, each in took.items()},
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def seconds(command: Sequence[str]) -> float:
    """Run a command and return the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
