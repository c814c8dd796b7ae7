"""Encode the collections' passages on a machine with an accelerator.

    python -m benchmarks.hybrid.encode pack OUT      here: cut documents into what gets a vector
    python -m benchmarks.hybrid.encode run IN OUT --encoder FOLDER      there: needs torch only

`run` writes fp16 vectors in the order of the packed units, in shards of 15 MB.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SHARD = 19_000


def pack(data: Path, out: Path) -> None:
    """Write each collection's units as JSON lines, rows counted as a new collection would."""
    from benchmarks.lexical.quality import read
    from quoth.models.glow.config import GlowConfig
    from quoth.text.passages import PassageConfig, cut_document

    fields = GlowConfig().fields
    out.mkdir(parents=True, exist_ok=True)
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        with gzip.open(out / f"{folder.name}.jsonl.gz", "wt", compresslevel=9) as stream:
            for row, document in enumerate(read(folder), start=1):
                kept = {n: list(document.fields[n]) for n in fields if n in document.fields}
                passages = cut_document(document, PassageConfig())
                body = [each.text for each in passages if each.field == fields[-1]]
                for unit, text in enumerate(body or [None]):
                    content = kept if text is None else {**kept, fields[-1]: [text]}
                    stream.write(json.dumps([row, unit, content], ensure_ascii=False) + "\n")


def run(source: Path, out: Path, encoder: str) -> None:
    """Encode every packed collection, in order of name, into shards that are easy to carry."""
    import torch

    from quoth.models.glow.encoder import GlowEncoder

    model = GlowEncoder.load(encoder, fast=False)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.network.float().to(device)
    out.mkdir(parents=True, exist_ok=True)
    found = []
    for path in sorted(source.glob("*.jsonl.gz")):
        units = list(read_units(path))
        start = time.perf_counter()
        found.append(encode(model, [fields for _row, _unit, fields in units], device))
        seconds = time.perf_counter() - start
        print(f"{path.name}: {len(units):,} units, {len(units) / seconds:,.0f} per second")
    vectors = np.concatenate(found).astype(np.float16)
    for at in range(0, len(vectors), SHARD):
        np.save(out / f"vectors-{at // SHARD:02}.npy", vectors[at : at + SHARD])


def load(source: Path, shards: Path) -> dict[str, tuple[Any, Any, Any]]:
    """Return rows, units and vectors of each collection, as packed and encoded."""
    vectors = np.concatenate([np.load(path) for path in sorted(shards.glob("vectors-*.npy"))])
    content, at = {}, 0
    for path in sorted(source.glob("*.jsonl.gz")):
        keys = [(row, unit) for row, unit, _fields in read_units(path)]
        rows, units = (np.array(column) for column in zip(*keys, strict=True))
        own = vectors[at : at + len(keys)].astype(np.float32)
        content[path.name.split(".")[0]] = (rows.astype(np.int64), units.astype(np.int32), own)
        at += len(keys)
    return content


def read_units(path: Path) -> Iterator[Any]:
    """Read row, unit and fields."""
    with gzip.open(path, "rt") as stream:
        for line in stream:
            yield json.loads(line)


def encode(model: Any, documents: list[Any], device: Any) -> Any:
    """Encode in batches of similar length under bf16."""
    import torch

    from quoth.models.batching import batches_by_length

    sequences = model.inputs.documents(documents, None)
    vectors = np.zeros((len(sequences), model.width), dtype=np.float32)
    lengths = [len(each.subword_ids) for each in sequences]
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        for rows in batches_by_length(lengths, budget=262_144):
            batch = model.inputs.pad([sequences[row] for row in rows]).to(device)
            vectors[rows] = model.network.encode_documents(batch).float().cpu().numpy()
    return vectors


if __name__ == "__main__":
    if sys.argv[1] == "pack":
        pack(Path("../shared/data/ir"), Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[5])
