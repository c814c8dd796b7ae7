"""Compare trained arms on the same held-out quotations, given the right words so far.

    python3 -m benchmarks.generation.compare_arms --base FOLDER unfold=FOLDER vector=FOLDER \\
        --out OUT.json

Each answer is laid out with the same phrases on offer for every arm. Measured: −log p per token of
the mixed text, the share of the right phrases with the highest score (recall) and of those with the
highest score that are right (precision), and of the sentences that answer whose phrases have the
highest score together. Differences are to the first arm, with 95 % intervals by 2,000 samples of
batches. Needs what `train_gpu` needs.
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

from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
from quoth.training.loop import Progress
from quoth.training.quoting.batches import BatchMaker
from quoth.training.quoting.set import DynamicSet, open_dynamic_set
from quoth.training.recipes.dynamic_lm import DynamicModule
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

DATA = Path("benchmarks/.cache/generation")
BATCH = 4
SAMPLES = 2_000
COUNTS = ("places", "mixed", "gold", "chosen", "right", "told", "sentence", "found")
MEASURES = {
    "mixed": ("mixed", "places"),
    "recall": ("right", "gold"),
    "precision": ("right", "chosen"),
    "sentence": ("sentence", "told"),
    "sentence_recall": ("found", "told"),
}
Numbers = NDArray[np.float64]


def main() -> None:
    """Measure every arm, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arms", nargs="+", help="name=folder")
    parser.add_argument("--base", type=Path, required=True, help="folder of the language model")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--budget", type=int, default=64, help="see `candidate_budget`")
    parser.add_argument("--limit", type=int, default=0, help="answers; 0 for all")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    quotes = open_dynamic_set(given.data / "quotes-valid.bin")
    counts = {}
    for name, _, folder in (arm.partition("=") for arm in given.arms):
        counts[name] = measure(Path(folder), quotes, given)
        print(name, {each: round(ratio(counts[name], each), 4) for each in MEASURES}, flush=True)
        given.out.write_text(json.dumps(compare(counts), indent=1) + "\n")


@torch.inference_mode()
def measure(folder: Path, quotes: DynamicSet, given: argparse.Namespace) -> Numbers:
    """Count what an arm gets right, a row per batch."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = open_dynamic_lm(folder, base=given.base, device=device)
    model.network.merge()
    recipe = DynamicLMRecipe(
        quote_share=1.0,
        quote_batch_size=BATCH,
        candidate_budget=given.budget,
        plain_weight=0.0,
        kl_weight=0.0,
    )
    unfolds = model.config.phrase_input == "unfold"
    module = DynamicModule(model.network, recipe, unfolds=unfolds).eval()
    maker = BatchMaker(quotes, recipe, mark=model.passage_marker)
    rows = []
    for number in range((given.limit or len(quotes.quotations)) // BATCH):
        module(maker[number].to(device))
        own = module.tally.counts()
        rows.append([own[each] for each in COUNTS])
        module.tally.report(Progress(0, 0.0, 0.0))  # begins anew
    return np.array(rows)


def ratio(counts: Numbers, measure: str) -> float:
    """Divide the sums that a measure is made of.

    >>> ratio(np.array([[2, 3.0, 1, 1, 0, 0, 0, 0], [2, 1.0, 1, 1, 1, 0, 0, 0]]), "mixed")
    1.0
    """
    above, below = (COUNTS.index(each) for each in MEASURES[measure])
    total = counts.sum(0)
    return float(total[above] / max(total[below], 1.0))


def compare(counts: dict[str, Numbers]) -> dict[str, Any]:
    """Return the figures of all arms, and how far each is above the first."""
    first, *others = counts
    return {
        "answers": BATCH * len(counts[first]),
        "arms": {
            name: {each: ratio(own, each) for each in MEASURES} for name, own in counts.items()
        },
        "above_first": {
            name: {each: difference(counts[name], counts[first], each) for each in MEASURES}
            for name in others
        },
    }


def difference(own: Numbers, other: Numbers, measure: str) -> list[float]:
    """Return how far one arm is above another, with the 95 % interval over batches."""
    chance = np.random.default_rng(0)
    drawn = chance.integers(len(own), size=(SAMPLES, len(own)))
    found = [ratio(own[rows], measure) - ratio(other[rows], measure) for rows in drawn]
    low, high = np.quantile(found, (0.025, 0.975)).tolist()
    return [ratio(own, measure) - ratio(other, measure), low, high]


if __name__ == "__main__":
    main()
