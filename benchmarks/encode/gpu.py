"""Passages per second on a GPU, Quoth beside sentence-transformers' default, in one run.

    python3 -m benchmarks.encode.gpu --encoder FOLDER --units benchmarks/.cache/units --out gpu.json

For a machine that has torch, transformers, tokenizers and sentence-transformers alone. Both encode
the same real passages (the units that `benchmarks.hybrid.encode pack` wrote, of scifact and
squad-dev) in turns, chunk by chunk, who goes first alternating; the ratio is the median over
chunks. Quoth runs as in `benchmarks.hybrid.encode run`: batches of like length in bf16.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.encode.turns import time_in_turns
from benchmarks.hybrid.encode import encode, read_units
from benchmarks.learn.generate import unit_text
from quoth.models.glow.encoder import GlowEncoder

SETS = ("scifact", "squad-dev")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--units", type=Path, default=Path("benchmarks/.cache/units"))
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts = [
        unit_text(fields)
        for name in SETS
        for _row, _unit, fields in read_units(given.units / f"{name}.jsonl.gz")
    ][: given.passages]
    systems = {
        "sentence-transformers": open_sentence_transformers(given.encoder, device),
        "quoth": open_quoth(given.encoder, device),
    }
    content = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "speed": time_in_turns(systems, texts, chunk=2_000),
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content))


def open_quoth(folder: Path, device: torch.device) -> Any:
    """Encode as on a machine with an accelerator."""
    model = GlowEncoder.load(str(folder), fast=False)
    model.network.to(device)

    def run(texts: list[str]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = encode(model, [{"text": [text]} for text in texts], device)
        return found

    return run


def open_sentence_transformers(folder: Path, device: torch.device) -> Any:
    """Encode as sentence-transformers does unless told otherwise."""
    from sentence_transformers import SentenceTransformer, models

    words = models.Transformer(str(folder), max_seq_length=256)
    pooling = models.Pooling(words.get_word_embedding_dimension(), "mean")
    model = SentenceTransformer(modules=[words, pooling, models.Normalize()], device=str(device))
    model.float()
    return lambda texts: model.encode(texts, show_progress_bar=False)


if __name__ == "__main__":
    main()
