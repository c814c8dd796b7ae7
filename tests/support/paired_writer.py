"""Add and remove documents in pairs that share a token, until a file says that it is enough."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from quoth.engine.engine import Engine
from quoth.records import Document

# A reader that meets an index behind its documents takes the lock for a moment, to catch up.
SETTINGS = [{"lexical": {"compact_share": 0.5}, "collection": {"wait_seconds": 120.0}}]


def make_pair(number: int, version: int) -> list[Document]:
    """Make two documents that must always be found together."""
    text = f"owl token{number} version{version} " + "filler " * (number % 9 + version % 5)
    return [Document(f"{side}{number}", {"text": (text,)}, {"n": number}) for side in ("a", "b")]


def main(folder: str, stop: str) -> None:
    chance = random.Random(6)
    batches = 0
    try:
        with Engine.open(folder, settings=SETTINGS) as engine:
            while not Path(stop).exists():
                numbers = chance.sample(range(30), chance.randint(1, 6))
                if chance.random() < 0.4:
                    engine.remove([f"{side}{number}" for number in numbers for side in ("a", "b")])
                else:
                    pairs = [make_pair(number, batches) for number in numbers]
                    engine.add_documents([each for pair in pairs for each in pair])
                batches += 1
    finally:
        Path(stop).touch()  # readers must not wait for a writer that failed


if __name__ == "__main__":
    main(*sys.argv[1:])
