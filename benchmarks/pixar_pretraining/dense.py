"""Search collections by an untrained encoder's vectors of passages, on a GPU, for the hybrid.

    python3 -m benchmarks.pixar_pretraining.dense --sets eval.json.xz --encoder FOLDER --out OUT

A passage is the title and up to 180 words of the text; a document scores as its best passage.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch

from benchmarks.pixar_pretraining.data import _pad, encode_all
from benchmarks.pixar_pretraining.train import start
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.inputs import PixarInputs
from quoth.text.passages import PassageConfig, cut_text

K = 100


def main() -> None:
    """Encode and search every collection."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network, inputs = start(given.encoder, device, seed=0)
    network.eval()
    inputs = PixarInputs(inputs.tokenizer, PixarConfig(max_query_subwords=256))
    kept = {}
    for name, content in json.loads(lzma.decompress(given.sets.read_bytes())).items():
        began, texts, owners = time.perf_counter(), [], []
        for at, (title, text) in enumerate(content["docs"]):
            for span in cut_text(text, PassageConfig()) or [None]:
                texts.append(f"{title} {text[span.start : span.end] if span else ''}")
                owners.append(at)
        found = [
            encode_all(network, _pad(inputs.queries(each), 256, device, inputs.pad_id))
            for each in (texts, [test[2] for test in content["tests"]])
        ]
        owner = torch.tensor(owners, device=device)
        sheet = found[1].float() @ found[0].float().T
        best = torch.full((len(sheet), len(content["docs"])), -1.0, device=device)
        best = best.index_reduce(1, owner, sheet, "amax")
        scores, rows = best.topk(min(K, best.shape[1]), 1)
        kept[f"{name}.rows"] = rows.cpu().numpy().astype(np.int32)
        kept[f"{name}.scores"] = scores.cpu().numpy()
        print(name, len(texts), f"{time.perf_counter() - began:.1f} s", flush=True)
        np.savez_compressed(given.out / "dense.npz", **kept)


if __name__ == "__main__":
    main()
