"""Kill a writer at random moments, again and again: what it acknowledged is there.

    python -m benchmarks.reliability.kills [--kills 60] [--seed 0]

The writer (tests/support/random_writer.py) says what it is about to do and when it is done. After
each kill the next process reads everything back, searches, and every tenth time verifies. Writes
results/kills.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from quoth import __version__
from quoth.engine.engine import Engine

WRITER = Path(__file__).resolve().parents[2] / "tests" / "support" / "random_writer.py"
RESULTS = Path(__file__).parent / "results" / "kills.json"
MOST_BATCHES = 12
"""Batches that a writer acknowledges, at most, before a kill is on its way."""

Wanted = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Looked:
    """What the process after a kill finds."""

    is_stored: bool
    """Whether the batch in flight was stored, though nobody was told."""

    differing: int
    """Documents that are not as they were acknowledged."""

    is_clean: bool


def main() -> None:
    """Kill, look, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance, expected = random.Random(given.seed), dict[str, str]()
    acknowledged = 0
    looks: list[Looked] = []
    with tempfile.TemporaryDirectory(prefix="quoth-kills-") as place:
        folder = Path(place) / "c.quoth"
        for number in range(given.kills):
            done, doubtful = write_and_kill(folder, chance, seed=given.seed * 1000 + number)
            acknowledged += len(done)
            for wanted in done:
                apply(expected, wanted)
            looks.append(look(folder, expected, doubtful, deep=number % 10 == 9))
    content = {
        "quoth": __version__,
        "kills": given.kills,
        "acknowledged": acknowledged,
        "differing": sum(each.differing for each in looks),
        "damaged": sum(not each.is_clean for each in looks),
        "stored_unacknowledged": sum(each.is_stored for each in looks),
    }
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(any(each.differing or not each.is_clean for each in looks))


def write_and_kill(
    folder: Path, chance: random.Random, *, seed: int
) -> tuple[list[Wanted], Wanted]:
    """Let a writer work and kill it; return what it acknowledged, and what it was just doing."""
    command = [sys.executable, str(WRITER), str(folder), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        lines = [writer.stdout.readline() for _line in range(chance.randrange(0, 2 * MOST_BATCHES))]
        time.sleep(chance.uniform(0.0, 0.2))
        os.kill(writer.pid, signal.SIGKILL)
        lines += writer.stdout.read().splitlines()
    done: list[Wanted] = []
    doubtful: Wanted = {}
    for line in lines:
        try:
            state, wanted = json.loads(line)
        except json.JSONDecodeError:
            continue  # the kill cut this line short
        if state == "doing":
            doubtful = wanted
        else:
            done.append(doubtful)
            doubtful = {}
    return done, doubtful


def apply(expected: dict[str, str], wanted: Wanted) -> None:
    """Do to a dictionary what was done to a collection."""
    for docid, text in wanted.items():
        if text is None:
            expected.pop(docid, None)
        else:
            expected[docid] = text


def look(folder: Path, expected: dict[str, str], doubtful: Wanted, *, deep: bool) -> Looked:
    """Read everything back, and compare; the batch in flight is there whole or not at all."""
    with Engine.open(folder) as engine:
        hits = {hit.docid for hit in engine.search("owl barn night", k=10_000)}
        found = {docid: engine.document(docid).fields["text"][0] for docid in engine.docids()}
        is_stored = found != expected
        if is_stored:
            apply(expected, doubtful)
        differing = {docid for docid, _text in found.items() ^ expected.items()}
        is_clean = not deep or engine.verify().is_clean
    return Looked(is_stored, len(differing | (hits - set(found))), is_clean)


if __name__ == "__main__":
    main()
