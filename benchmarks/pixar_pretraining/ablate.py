"""Train several arms for the same number of steps, and compare them on held-out pairs.

python3 -m benchmarks.pixar_pretraining.ablate --packed FOLDER --encoder FOLDER --out OUT
    --steps 400 [--arms all,no_teacher,no_neighbours,no_lengths,no_paper,seed_1]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import torch

from benchmarks.pixar_pretraining.batches import Settings
from benchmarks.pixar_pretraining.data import read_pairs
from benchmarks.pixar_pretraining.train import Trainer, restore, start, train

ARMS: dict[str, dict[str, Any]] = {
    "all": {},
    "no_teacher": {"teacher_share": 0.0},
    "no_neighbours": {"neighbours": 0.0},
    "no_lengths": {},
    "no_paper": {"paper_share": 0.0},
    "no_ordered": {"ordered_share": 0.0},
    "no_sentences": {"sentences": 0.0},
    "ordered_more": {"ordered_share": 2.0},
    "more_sentences": {"sentences": 0.5},
    "untitled": {"titled": 0.0},
    "eight": {"each": 8},
    "scale_10": {"scale": 10.0},
    "scale_40": {"scale": 40.0},
    "slow": {"encoder_rate": 5e-5},
    "fast": {"encoder_rate": 2e-4},
    "lean": {"ordered_share": 0.0, "paper_share": 0.0},
    "seed_1": {"seed": 1},
}


def main() -> None:
    """Train and judge every arm, from the same start."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packed", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--start", type=Path, help="weights that all arms start from")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network, inputs = start(given.encoder, device, seed=0)
    pairs = read_pairs(given.packed, inputs, device)
    trainer = Trainer(network, pairs, Settings(batch=given.batch), inputs)
    trainer.choose_mix()
    results = {}
    for arm in given.arms.split(","):
        own = replace(Settings(batch=given.batch), **ARMS[arm])
        fresh, _inputs = start(given.encoder, device, seed=own.seed)
        if given.start is not None:
            restore(fresh, given.start)
        if arm == "no_lengths" and fresh.lengths is not None:
            fresh.lengths.requires_grad_(False)
        trainer.begin(fresh, own)
        begin = time.perf_counter()
        steps = train(trainer, seconds=1e6, most_steps=given.steps, log=[])
        taken = time.perf_counter() - begin
        results[arm] = {"steps": steps, "seconds": taken, "held_out": trainer.judge()}
        print(arm, results[arm], flush=True)
        (given.out / "ablation.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
