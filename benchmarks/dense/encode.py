"""Encode packed passages on the processor, with the shipped encoder as users get it.

    python -m benchmarks.hybrid.encode pack UNITS
    python -m benchmarks.dense.encode UNITS SHARDS

Writes half precision in the order of the units, a file for every 2,000 of them; a second call goes
on where the first was stopped. Delete packed collections from UNITS to encode fewer.
`benchmarks.hybrid.encode.load` reads the result, as it reads that of an accelerator.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

import numpy as np

from benchmarks.hybrid.encode import read_units
from quoth.index.dense.config import DenseConfig
from quoth.models.glow.encoder import GlowEncoder

BLOCK = 2_000


def main() -> None:
    """Encode what has no file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path)
    parser.add_argument("shards", type=Path)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    given.shards.mkdir(parents=True, exist_ok=True)
    paths = sorted(given.units.glob("*.jsonl.gz"))
    texts = [fields for path in paths for _row, _unit, fields in read_units(path)]
    encoder = GlowEncoder.load(DenseConfig().encoder)
    for number, at in enumerate(range(0, len(texts), BLOCK)):
        path = given.shards / f"vectors-{number:04}.npy"
        if path.exists():
            continue
        start, some = time.perf_counter(), texts[at : at + BLOCK]
        unfinished = path.with_suffix(".tmp")
        with unfinished.open("wb") as stream:
            np.save(stream, encoder.encode_documents(some).vectors.astype(np.float16))
        unfinished.rename(path)
        speed = len(some) / (time.perf_counter() - start)
        logging.info("%d of %d, %.0f per second", at + len(some), len(texts), speed)


if __name__ == "__main__":
    main()
