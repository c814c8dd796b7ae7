"""Draw pseudo-queries at random, with the passages they were written for.

    python -m benchmarks.learn.examples [--seed 0]

Reads what `benchmarks.learn.generate` wrote; writes results/examples.json. Nothing is chosen.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from pathlib import Path
from typing import Any

from benchmarks.hybrid.encode import read_units
from benchmarks.learn.generate import unit_text

CACHE = Path("benchmarks/.cache")
RESULTS = Path(__file__).parent / "results" / "examples.json"
SETS = ("scifact", "cranfield", "squad-dev")
SHOWN = 180  # characters of a passage


def main() -> None:
    """Draw for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    given = parser.parse_args()
    drawn = {name: draw(name, given.count, seed=given.seed) for name in SETS}
    content = {"seed": given.seed, "sets": drawn}
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def draw(name: str, count: int, *, seed: int) -> list[dict[str, Any]]:
    """Draw passages of a set, and one of the queries of each."""
    texts = {
        (row, unit): unit_text(fields)
        for row, unit, fields in read_units(CACHE / "units" / f"{name}.jsonl.gz")
    }
    with gzip.open(CACHE / "queries" / f"{name}.jsonl.gz", "rt") as stream:
        lines = [json.loads(line) for line in stream]
    chance = random.Random(seed)
    chosen = chance.sample([line for line in lines if line[2]], count)
    return [
        {"passage": " ".join(texts[row, unit].split())[:SHOWN], "query": chance.choice(queries)}
        for row, unit, queries in chosen
    ]


if __name__ == "__main__":
    main()
