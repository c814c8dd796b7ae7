"""Write pseudo-queries for passages of the packed collections, on a machine with an accelerator.

    python3 -m benchmarks.learn.generate UNITS OUT --generator FOLDER --encoder FOLDER

UNITS is what `benchmarks.hybrid.encode pack` wrote. A sample of each collection's units, drawn by
seed, gets `--per-passage` distinct queries by nucleus sampling. Writes OUT/<collection>.jsonl.gz
with lines of row, unit and queries. No query of the collections is read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import torch

from benchmarks.hybrid.encode import read_units
from quoth.models.pretrained import load_tokenizer
from quoth.models.query_generator.files import load_network
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.inputs import QueryGeneratorInputs
from quoth.models.query_generator.loading import start_id
from quoth.models.query_generator.saved import read_saved


def main() -> None:
    """Write queries for every collection."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--generator", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--sets", default="", help="only these")
    parser.add_argument("--passages", type=int, default=2500)
    parser.add_argument("--per-passage", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    generator = load(given.generator, given.encoder)
    wanted = given.sets.split(",") if given.sets else None
    for path in sorted(given.units.glob("*.jsonl.gz")):
        if wanted is not None and path.name.removesuffix(".jsonl.gz") not in wanted:
            continue
        units = sorted(read_units(path), key=lambda each: (each[0], each[1]))
        if len(units) > given.passages:
            units = sorted(random.Random(given.seed).sample(units, given.passages))
        began = time.perf_counter()
        written = generator.generate(
            [unit_text(fields) for _row, _unit, fields in units],
            per_passage=given.per_passage,
            temperature=given.temperature,
            seed=given.seed,
        )
        seconds = time.perf_counter() - began
        with gzip.open(given.out / path.name, "wt", compresslevel=9) as stream:
            for (row, unit, _fields), queries in zip(units, written, strict=True):
                stream.write(json.dumps([row, unit, queries], ensure_ascii=False) + "\n")
        total = sum(map(len, written))
        print(f"{path.name}: {total:,} queries, {total / seconds:,.0f} per second", flush=True)


def load(folder: Path, encoder: Path) -> QueryGenerator:
    """Load a generator over an encoder that is at hand under another name than usual."""
    saved = read_saved(folder)
    inputs = QueryGeneratorInputs(load_tokenizer(encoder), saved.config)
    network = load_network(folder, saved, base=encoder, start_id=start_id(inputs))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return QueryGenerator(
        folder.name,
        network.to(device),
        inputs,
        saved.config,
        encoder=saved.encoder,
        identity={"name": folder.name},
    )


def unit_text(fields: dict[str, Any]) -> str:
    """Join the fields of a unit as a generator reads them: title first."""
    return "\n".join(" ".join(texts) for texts in fields.values() if any(texts))


if __name__ == "__main__":
    main()
