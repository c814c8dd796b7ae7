"""What building a collection costs beside plain tantivy, in turns.

    python -m benchmarks.lexical.building [--passages 20000] [--rounds 5]

Real texts of all sets, in equal shares, one field each. Every build has a process of its own, and
the systems take turns, so that a slow minute of the machine hits both. Both see the same terms,
made by Quoth's analyser. Ratios are medians over rounds. Writes results/building.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lexical.growth import take
from benchmarks.lexical.speed import peak_megabytes
from benchmarks.lexical.systems import BUILDERS
from quoth import __version__

RESULTS = Path(__file__).parent / "results" / "building.json"
SYSTEMS = ("tantivy", "quoth")


def main() -> None:
    """Build both, round by round, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rounds, loads = [], []
    for _round in range(given.rounds):
        loads.append(os.getloadavg()[0])
        rounds.append({name: build_apart(name, given.data, given.passages) for name in SYSTEMS})
        logging.info("%s", json.dumps(rounds[-1]))
    measures = ("processor_seconds", "seconds", "peak_mb")
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": median(loads),
        "rounds": given.rounds,
        "passages": given.passages,
        "systems": {
            name: {key: median(each[name][key] for each in rounds) for key in measures}
            for name in SYSTEMS
        },
        "ratios": {
            key: median(each["quoth"][key] / each["tantivy"][key] for each in rounds)
            for key in measures
        },
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def build_apart(system: str, data: Path, count: int) -> dict[str, float]:
    """Build one index in a fresh process; reading the texts is not counted."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(system, data, count, send))
    process.start()
    found: dict[str, float] = receive.recv()
    process.join()
    return found


def _build(system: str, data: Path, count: int, send: Any) -> None:
    sets = sorted(path.name for path in data.iterdir())
    passages = [
        (each.docid, text)
        for each in take(data, sets, count=count)
        for (text,) in each.fields.values()
    ]
    scratch = Path(tempfile.mkdtemp(prefix="quoth-build-"))
    try:
        start, processor = time.perf_counter(), time.process_time()
        BUILDERS[system](iter(passages), scratch / system)
        send.send(
            {
                "processor_seconds": time.process_time() - processor,
                "seconds": time.perf_counter() - start,
                "peak_mb": peak_megabytes(),
            }
        )
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
