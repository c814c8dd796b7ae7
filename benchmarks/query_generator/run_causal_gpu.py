"""Train a causal query generator, adapters over a language model, on a GPU.

    python3 -m benchmarks.query_generator.run_causal_gpu --base FOLDER --out OUT --minutes 4
    python -m benchmarks.query_generator.run_causal_gpu --base FOLDER --out OUT --steps 2 \
        --batch 4 --limit 60

Needs torch, tokenizers, safetensors, numba, the files that `pack_texts` wrote, and the language
model in the Hugging Face layout. With `--minutes`, steps are timed first and as many planned as
fit. Writes OUT/causal-query-generator (adapters in bf16) and OUT/report.json; the loss of what was
written is measured after reading it back, as it is used.
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

import numpy as np
import torch

from benchmarks.query_generator.recipe import (
    QueryGeneratorRecipe,
    QueryPair,
    held_out_rows,
    measure_held_out,
    tokenise_pairs,
    train_query_generator,
)
from benchmarks.query_generator.run_gpu import Clock, describe
from benchmarks.query_generator.text_pairs import TextPairs, load_text_pairs
from quoth.models.query_generator.causal_files import load_network, read_causal
from quoth.models.query_generator.config import CausalGeneratorConfig
from quoth.models.query_generator.generator import QueryGenerator
from quoth.training.retriever.training_set import TrainingSet

PACK = Path("benchmarks/.cache/query_generator")
NAME = "causal-query-generator"
NUM_EXAMPLES, LOOKS = 20, 8
_TIMED_STEPS = (5, 10, 30)  # the first warm up


def main() -> None:
    """Train, measure, write."""
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = CausalGeneratorConfig(
        lower_case=given.case == "lower", lora_rank=given.rank, lora_alpha=given.alpha
    )
    generator = QueryGenerator.start_causal(given.base, config=config, seed=given.seed)
    found = whole_pairs(load_text_pairs(given.pack), generator, limit=given.limit)
    pairs = tokenise_pairs(found.pairs, generator.inputs)
    print(f"{len(pairs):,} pairs, {int(found.held_out.sum()):,} held out", flush=True)
    recipe = plan(given, generator, pairs, device)
    clock = Clock(recipe.batch_size)
    network, report = train_query_generator(
        generator.network, pairs, recipe, device=device, held_out=found.held_out, progress=clock
    )
    seconds = time.perf_counter() - clock.began
    generator.network = network.cpu()
    generator.save(given.out / NAME)
    use_saved(generator, given.out / NAME, given.base, device)
    unseen = held_out_rows(found.held_out, recipe)
    written = measure_held_out(generator.network, pairs.to(device), unseen)
    content = describe(given, recipe, report, device, saved=written)
    content["seconds"] = round(seconds, 1)
    content["examples"] = write_examples(generator, [found.pairs[row] for row in unseen])
    (given.out / "report.json").write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps({key: content[key] for key in ("held_out", "held_out_saved", "seconds")}))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True, help="folder of the language model")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", type=Path, default=PACK, help="folder that pack_texts wrote")
    parser.add_argument("--minutes", type=float, default=0.0, help="time to train for")
    parser.add_argument("--steps", type=int, default=1200, help="where no minutes are given")
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=32.0)
    parser.add_argument("--case", choices=("lower", "kept"), default="lower", help="of queries")
    parser.add_argument("--limit", type=int, default=0, help="pairs, for a try; 0 takes all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def whole_pairs(found: TextPairs, generator: QueryGenerator, *, limit: int) -> TextPairs:
    """Leave out pairs whose query would be cut; `limit` draws some of the rest."""
    most = generator.config.max_query_subwords
    lengths = map(len, generator.inputs.queries([pair.query for pair in found.pairs]))
    rows = np.array([row for row, length in enumerate(lengths) if 1 < length < most])
    if limit:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:limit])
    return TextPairs([found.pairs[row] for row in rows], found.held_out[rows])


def plan(
    given: argparse.Namespace, generator: QueryGenerator, pairs: TrainingSet, device: torch.device
) -> QueryGeneratorRecipe:
    """Turn the command line into a recipe, of as many steps as fit into the minutes."""
    recipe = QueryGeneratorRecipe(
        steps=given.steps,
        batch_size=given.batch,
        learning_rate=given.rate,
        weight_decay=0.0,
        dropout=given.dropout,
        max_held_out=2_400 if device.type == "cuda" else 16,
        patience=0,
        source_caps={},  # packed pairs are capped
        seed=given.seed,
    )
    if given.minutes:
        seconds = time_step(generator, pairs, recipe, device)
        print(f"{1000 * seconds:.0f} ms per step", flush=True)
        recipe = replace(recipe, steps=max(1, int(0.9 * 60 * given.minutes / seconds)))
    every = max(1, recipe.steps // LOOKS)
    recipe = replace(recipe, validate_every=every, steps=every * max(1, recipe.steps // every))
    print(f"{recipe.steps} steps of {recipe.batch_size} pairs", flush=True)
    return recipe


def time_step(
    generator: QueryGenerator,
    pairs: TrainingSet,
    recipe: QueryGeneratorRecipe,
    device: torch.device,
) -> float:
    """Time a step by the difference of a short and a longer run; what both begin with cancels."""
    none = np.zeros(len(pairs), dtype=bool)
    seconds = []
    for steps in _TIMED_STEPS:
        began = time.perf_counter()
        short = replace(recipe, steps=steps)
        train_query_generator(generator.network, pairs, short, device=device, held_out=none)
        seconds.append(time.perf_counter() - began)
    _warm, short_run, long_run = seconds
    return max(1e-4, (long_run - short_run) / (_TIMED_STEPS[2] - _TIMED_STEPS[1]))


def use_saved(generator: QueryGenerator, folder: Path, base: Path, device: torch.device) -> None:
    """Put what was written into the generator, as it is used: merged and in bf16 on a GPU."""
    network = load_network(folder, read_causal(folder), base=base, prefix=generator.network.prefix)
    network.to(device)
    if device.type == "cuda":
        network.use_bf16()
    generator.network = network


def write_examples(generator: QueryGenerator, pairs: list[QueryPair]) -> list[dict[str, Any]]:
    """Write queries for held-out passages, greedy and sampled, beside the true ones."""
    rows = np.random.default_rng(0).permutation(len(pairs))[:NUM_EXAMPLES]
    chosen = [pairs[row] for row in rows]
    texts = [pair.passage for pair in chosen]
    greedy = generator.generate(texts, method="greedy")
    sampled = generator.generate(texts, per_passage=3)
    examples = []
    for pair, one, some in zip(chosen, greedy, sampled, strict=True):
        own = {"true": pair.query, "greedy": one[0], "sampled": some}
        examples.append({"source": pair.source, "passage": pair.passage[:120], **own})
        print(f"{pair.source}: {pair.passage[:120]}\n  {own}", flush=True)
    return examples


if __name__ == "__main__":
    main()
