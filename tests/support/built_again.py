"""Build a collection with vectors and what follows from them, always the same way.

Says that it is ready when all is imported, and begins when it is told to.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import damaging
import onnxruntime  # noqa: F401  # what encodes is loaded before it begins
import tiny_encoder

from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.settings.stored import MODELS, use_learned


def main(folder: str) -> None:
    home = Path(folder)
    damaging.Sample(home)
    encoder = tiny_encoder.save_tiny_encoder(home / MODELS / "learned-1")
    with contextlib.closing(Store.create(home)) as store:
        use_learned(store, encoder=encoder.name)
    with Engine.open(home) as engine:
        engine.encode(seed=3)
        engine.add_documents(damaging.make_document(number, seed=4) for number in range(100, 130))
        engine.remove(["d9", "d101"])


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    main(*sys.argv[1:])
