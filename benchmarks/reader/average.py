"""Average two readers of one run: weights half-way generalise better than either end.

    python -m benchmarks.reader.average BEFORE AFTER OUT [--share 0.5]

AFTER went on from BEFORE. Matrices are read as they are shipped and written in int8 again; the
weights of a sentence's signs are averaged as well, the calibration of silence is AFTER's.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from quoth.models.quantised import dequantise, quantise
from quoth.models.reader.files import CONFIG_FILE, WEIGHTS_FILE
from quoth.models.tensor_files import digest

SIGNS_FILE = "sentences.json"


def main() -> None:
    """Write the average."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of AFTER")
    given = parser.parse_args()
    average(given.before, given.after, given.out, share=given.share)


def average(before: Path, after: Path, out: Path, *, share: float) -> None:
    """Write a reader whose weights lie between those of two others."""
    old, new = (dequantise(load_file(str(each / WEIGHTS_FILE))) for each in (before, after))
    mixed = mix([old, new], [1 - share, share])
    shutil.copytree(after, out)
    save_file(quantise(mixed, dtype="int8"), str(out / WEIGHTS_FILE))
    config = json.loads((out / CONFIG_FILE).read_text())
    config["sha256"] = digest(out / WEIGHTS_FILE)
    (out / CONFIG_FILE).write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    signs, others = (json.loads((each / SIGNS_FILE).read_text()) for each in (after, before))
    pairs = zip(others["weights"], signs["weights"], strict=True)
    signs["weights"] = [round((1 - share) * one + share * two, 4) for one, two in pairs]
    (out / SIGNS_FILE).write_text(json.dumps(signs) + "\n")


def mix(readers: Sequence[Mapping[str, Tensor]], shares: Sequence[float]) -> dict[str, Tensor]:
    """Add up weights by shares.

    >>> mix([{"a": torch.zeros(1)}, {"a": torch.ones(1)}], [0.25, 0.75])
    {'a': tensor([0.7500])}
    """
    return {
        name: torch.stack([s * each[name] for s, each in zip(shares, readers, strict=True)]).sum(0)
        for name in sorted(readers[0])
    }


if __name__ == "__main__":
    main()
