"""What building a collection costs beside plain tantivy, in turns.

    python -m benchmarks.lexical.building [--passages 20000] [--rounds 5]
    python -m benchmarks.lexical.building --short --passages 300000 [--rounds 3]

Real texts of all sets, in equal shares, one field each; with `--short`, passages of 48 words, cut
of all texts, in random order (`benchmarks.lexical.growth`). Every build has a process of its own,
and the systems take turns, so that a slow minute of the machine hits all. All see the same terms,
made by Quoth's analyser. Quoth is built twice: as it is by default, with further threads where
there are cores for them, and with none. Processor time is that of all processes of a build
together, and so is memory, which is looked at every fifth of a second. Ratios are medians over
rounds of what two neighbours took. Writes results/building.json, or results/building_short.json.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import logging
import multiprocessing
import os
import platform
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lexical.growth import take as take_short
from benchmarks.lexical.quality import join, read
from benchmarks.lexical.systems import BUILDERS
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.records import Document

RESULTS = Path(__file__).parent / "results"
SYSTEMS = ("tantivy", "quoth", "quoth_alone")
MEASURES = ("processor_seconds", "seconds", "peak_mb")


def main() -> None:
    """Build both, round by round, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", action="store_true", help="cut all texts into short passages")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rounds, loads = [], []
    for _round in range(given.rounds):
        loads.append(os.getloadavg()[0])
        texts = (given.data, given.passages, given.short)
        rounds.append({name: build_apart(name, *texts) for name in SYSTEMS})
        logging.info("%s", json.dumps(rounds[-1]))
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": median(loads),
        "rounds": given.rounds,
        "passages": given.passages,
        "systems": {
            name: {key: median(each[name][key] for each in rounds) for key in MEASURES}
            for name in SYSTEMS
        },
        "ratios": {
            name: {
                key: median(each[name][key] / each["tantivy"][key] for each in rounds)
                for key in MEASURES
            }
            for name in SYSTEMS[1:]
        },
    }
    name = "building_short" if given.short else "building"
    out = given.out or RESULTS / f"{name}.json"
    out.write_text(json.dumps(content, indent=1) + "\n")


def build_apart(system: str, data: Path, count: int, is_short: bool) -> dict[str, float]:
    """Build one index in a fresh process; reading the texts is not counted."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(system, data, count, is_short, send))
    process.start()
    found: dict[str, float] = receive.recv()
    process.join()
    return found


def _build(system: str, data: Path, count: int, is_short: bool, send: Any) -> None:
    if is_short:
        documents = take_short(data.parent, count=count)
    else:
        documents = take(data, sorted(path.name for path in data.iterdir()), count=count)
    passages = [(each.docid, text) for each in documents for (text,) in each.fields.values()]
    del documents
    gc.collect()
    gc.freeze()  # nobody else's build would look through these texts for dead objects
    scratch = Path(tempfile.mkdtemp(prefix="quoth-build-"))
    try:
        with Memory() as memory:
            start, processor = time.perf_counter(), processor_seconds()
            build(system, passages, scratch / system)
            taken = {
                "processor_seconds": processor_seconds() - processor,
                "seconds": time.perf_counter() - start,
            }
        send.send({**taken, "peak_mb": memory.peak_mb})
    finally:
        shutil.rmtree(scratch)


def build(system: str, passages: list[tuple[str, str]], folder: Path) -> None:
    """Build one index."""
    if system != "quoth_alone":
        BUILDERS[system](iter(passages), folder)
        return
    with Engine.open(folder, settings=({"collection": {"workers": 0}},)) as engine:
        engine.add_documents(Document(docid, {"text": (text,)}) for docid, text in passages)


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


class Memory:
    """The most memory that this process and those it started held together."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, _resident_megabytes())
            if self._is_over.wait(0.2):
                return


def _resident_megabytes() -> float:
    """Add up what this process and its children hold in memory."""
    own, total = os.getpid(), 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has just ended
            fields = path.read_text().rpartition(")")[2].split()
            if own in (int(path.parent.name), int(fields[1])):
                total += int(fields[21]) * resource.getpagesize() / 2**20
    return total


def take(data: Path, sets: Sequence[str], *, count: int) -> list[Document]:
    """Take documents in turns of the sets, as far as each has them, title and text joined."""
    sources = [_read_named(data, name) for name in sets]
    mixed = (each for portion in itertools.zip_longest(*sources) for each in portion if each)
    return list(itertools.islice(mixed, count))


def _read_named(data: Path, name: str) -> Iterator[Document]:
    """Read a set's documents under docids that no other set has."""
    return (replace(join(each), docid=f"{name}/{each.docid}") for each in read(data / name))


if __name__ == "__main__":
    main()
