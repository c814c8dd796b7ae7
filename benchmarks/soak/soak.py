"""Search and write at the same time for long; memory, files and latency over time.

    python -m benchmarks.soak.soak [--seconds 3600] [--intervals 60] [--documents 2000]
        [--searches 10] [--batches 0.5]

One process adds, updates and removes documents, so that their number stays about the same; another
searches. Both keep to a fixed rate a second (0: as fast as they can), so that latency and memory
over time compare. Both note their memory, open files and the load of the machine; at the end every
document is compared with what was acknowledged, and the collection is verified. Writes
results/soak.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from quoth import __version__
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents

RESULTS = Path(__file__).parent / "results" / "soak.json"
BATCH = 20


def main() -> None:
    """Soak, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--intervals", type=int, default=60)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--searches", type=float, default=10.0, help="a second; 0: no limit")
    parser.add_argument("--batches", type=float, default=0.5, help="a second; 0: no limit")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="quoth-soak-"))
    try:
        found = soak(
            place / "c.quoth",
            Times(given.seconds, given.intervals),
            documents=given.documents,
            rates=(given.batches, given.searches),
        )
    finally:
        shutil.rmtree(place, ignore_errors=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(not found["exact"] or not found["clean"])


@dataclass(frozen=True, slots=True)
class Times:
    """How long, in how many intervals, and how often a second; 0 is as often as possible."""

    seconds: float
    intervals: int
    rate: float = 0.0


def soak(
    folder: Path, times: Times, *, documents: int, rates: tuple[float, float] = (0.0, 0.0)
) -> dict[str, Any]:
    """Read and write at the same time, so many batches and searches a second; then compare."""
    texts = real_texts()
    with Engine.open(folder) as engine:
        engine.add_documents(make_document(at, 0, texts) for at in range(documents))
    own = [replace(times, rate=rate) for rate in rates]
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _side in range(2)]
    sides = [
        context.Process(target=write, args=(folder, documents, texts, own[0], pipes[0][1])),
        context.Process(target=search, args=(folder, texts, own[1], pipes[1][1])),
    ]
    for side in sides:
        side.start()
    written, searched = (pipe[0].recv() for pipe in pipes)
    for side in sides:
        side.join()
    with Engine.open(folder) as engine:
        found = {docid: engine.document(docid).fields["text"][0] for docid in engine.docids()}
        clean = engine.verify().is_clean
    rows = zip(written["rows"], searched["rows"], strict=False)
    disk = [row["disk"] for row in written["rows"]]
    return {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {multiprocessing.cpu_count()} cores",
        "seconds": times.seconds,
        "documents": documents,
        "rates": {"batches": rates[0], "searches": rates[1]},
        "load": round(statistics.fmean(row["load"] for row in written["rows"]), 2),
        "searches": sum(row["count"] for row in searched["rows"]),
        "changes": sum(row["count"] for row in written["rows"]),
        "exact": found == written["expected"],
        "clean": clean,
        "intervals": [
            {"at": one["at"], "writer": one, "searcher": other, "disk": one.pop("disk")}
            for one, other in rows
        ],
        "growth": {
            "writer": growth([row["memory"] for row in written["rows"]]),
            "searcher": growth([row["memory"] for row in searched["rows"]]),
            "latency": growth([row["p50"] for row in searched["rows"]]),
            "disk": growth(disk),
        },
    }


def real_texts() -> list[str]:
    """Take texts from the docstrings of the standard library."""
    packages = ["python:json", "python:email", "python:logging", "python:asyncio"]
    found = read_documents(packages, config=ReaderConfig(), report=lambda _problem: None)
    return [" ".join(t for each in one.document.fields.values() for t in each) for one in found]


def make_document(number: int, version: int, texts: Sequence[str]) -> Document:
    """Make a version of a document."""
    text = f"{texts[(number * 7 + version) % len(texts)]} version {version}"
    return Document(f"d{number}", {"text": (text,)}, {"version": version})


def growth(values: Sequence[float]) -> float:
    """Compare the mean of the last quarter with that of the second: 0.1 is a tenth more.

    >>> growth([9, 9, 10, 10, 10, 10, 11, 11])
    0.1
    """
    if not values:
        return 0.0
    quarter = max(1, len(values) // 4)
    before = statistics.fmean(values[quarter : 2 * quarter] or values)
    return round(statistics.fmean(values[-quarter:]) / before - 1, 6)


def write(
    folder: Path, documents: int, texts: Sequence[str], times: Times, out: Connection
) -> None:
    """Add, update and remove until the time is over; tell what must be there then."""
    chance, rows = random.Random(1), Clock(times)
    version = dict.fromkeys(range(documents), 0)
    with Engine.open(folder) as engine:
        step = 0
        while rows.goes_on():
            step += 1
            chosen = chance.sample(range(documents), BATCH)
            with rows.timed(BATCH):
                if step % 3 == 0:
                    engine.remove([f"d{at}" for at in chosen if at in version])
                    for at in chosen:
                        version.pop(at, None)
                else:
                    missing = [at for at in range(documents) if at not in version][:BATCH]
                    for at in {*chosen, *missing}:
                        version[at] = step
                    engine.add_documents(
                        make_document(at, step, texts) for at in sorted({*chosen, *missing})
                    )
            if rows.is_due():
                rows.note(disk=_size(folder))
    expected = {
        f"d{at}": make_document(at, number, texts).fields["text"][0]
        for at, number in version.items()
    }
    out.send({"rows": rows.rows, "expected": expected})


def search(folder: Path, texts: Sequence[str], times: Times, out: Connection) -> None:
    """Search until the time is over."""
    chance, rows = random.Random(2), Clock(times)
    words = sorted({word for text in texts for word in text.split() if word.isalpha()})
    with Engine.open(folder) as engine:
        while rows.goes_on():
            query = " ".join(chance.sample(words, 3))
            with rows.timed(1):
                engine.search(query, k=10)
            if rows.is_due():
                rows.note()
    out.send({"rows": rows.rows})


class Clock:
    """Times work, and notes a row for every interval."""

    def __init__(self, times: Times) -> None:
        self._begun = time.monotonic()
        self._seconds, self._step = times.seconds, times.seconds / times.intervals
        self._pause = 1 / times.rate if times.rate else 0.0
        self._next = self._begun
        self._taken: list[float] = []
        self._count = self._work = 0
        self._since = 0.0
        self.rows: list[dict[str, Any]] = []

    def goes_on(self) -> bool:
        """Wait for the next turn, if there is a rate; whether the time is not over.

        Turns that were missed, as the machine was busy, are left out and not made up for.
        """
        if self._pause:
            self._next = max(self._next + self._pause, time.monotonic() - self._pause)
            time.sleep(max(0.0, self._next - time.monotonic()))
        return time.monotonic() - self._begun < self._seconds

    def timed(self, count: int) -> Clock:
        """Time a block that does so many things."""
        self._work = count
        return self

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_exception: object) -> None:
        self._taken.append(time.perf_counter() - self._since)
        self._count += self._work

    def is_due(self) -> bool:
        """Whether an interval is over."""
        return time.monotonic() - self._begun >= self._step * (len(self.rows) + 1)

    def note(self, **more: Any) -> None:
        """Note the interval."""
        ordered = sorted(self._taken)
        self.rows.append(
            {
                "at": round(time.monotonic() - self._begun, 1),
                "count": self._count,
                "p50": round(1000 * ordered[len(ordered) // 2], 2),
                "p95": round(1000 * ordered[int(0.95 * (len(ordered) - 1))], 2),
                "memory": _memory(),
                "files": len(os.listdir("/proc/self/fd")),
                "load": round(os.getloadavg()[0], 2),
                **more,
            }
        )
        self._taken, self._count = [], 0


def _memory() -> int:
    """Return the resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


if __name__ == "__main__":
    main()
