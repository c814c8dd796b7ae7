"""Train the embedded query generator on a GPU, or for a few steps on a CPU.

    python3 -m benchmarks.query_generator.run_gpu --encoder FOLDER --out OUT --minutes 8
    python -m benchmarks.query_generator.run_gpu --encoder FOLDER --out OUT --steps 3 --batch 8

Needs torch, transformers, tokenizers, safetensors, numba, the file that `pack` wrote, and MiniLM in
the Hugging Face layout (fp16 will do). With `--minutes`, steps are timed first and as many planned
as fit. Writes OUT/query-generator (int8 weights, ready to be shipped) and OUT/report.json; the loss
of the int8 weights is measured after reading them back.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.query_generator.pack import load_pack
from benchmarks.query_generator.recipe import (
    HeldOutLoss,
    QueryGeneratorRecipe,
    QueryGeneratorReport,
    held_out_rows,
    measure_held_out,
    train_query_generator,
)
from quoth.models.pretrained import DEFAULT_NAME, DEFAULT_SHA256
from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.files import EncoderSource, load_network, save_network
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.loading import Network, start_id
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.models.query_generator.saved import read_saved
from quoth.training.loop import Progress
from quoth.training.retriever.training_set import TrainingSet

PACK = Path("benchmarks/.cache/query-generator/pack.bin")
NUM_EXAMPLES = 20
_TIMED_STEPS = 20


def main() -> None:
    """Train, measure, write."""
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pairs, held_out, facts = load_pack(given.pack)
    config = replace(
        QueryGeneratorConfig(**facts["config"]),
        num_layers=given.layers,
        train_encoder=given.train_encoder,
    )
    generator = QueryGenerator.start(str(given.encoder), config=config)
    recipe = make_recipe(given, max_held_out=2_048 if device.type == "cuda" else 64)
    if given.minutes:
        recipe = replace(recipe, steps=plan_steps(generator.network, pairs, recipe, given, device))
    print(
        f"{len(pairs):,} pairs, {int(held_out.sum()):,} held out; {recipe.steps} steps", flush=True
    )
    clock = Clock(recipe.batch_size)
    network, report = train_query_generator(
        generator.network, pairs, recipe, device=device, held_out=held_out, progress=clock
    )
    seconds = time.perf_counter() - clock.began
    assert isinstance(network, QueryGeneratorNetwork)
    folder = given.out / "query-generator"
    save_network(
        folder,
        network,
        config,
        encoder=EncoderSource(DEFAULT_NAME, DEFAULT_SHA256),
        tokenizer=generator.inputs.tokenizer,
    )
    network = reread(folder, given.encoder, generator).to(device)
    unseen = held_out_rows(held_out, recipe)
    int8 = measure_held_out(network, pairs.to(device), unseen)
    generator.network = network
    examples = write_examples(generator, pairs, unseen)
    content = describe(given, recipe, report, device, int8=int8)
    content |= {"seconds": round(seconds, 1), "read": facts["read"], "examples": examples}
    (given.out / "report.json").write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps({key: content[key] for key in ("held_out", "held_out_int8", "seconds")}))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True, help="folder of MiniLM")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", type=Path, default=PACK)
    parser.add_argument("--minutes", type=float, default=0.0, help="time to train for")
    parser.add_argument("--steps", type=int, default=1500, help="where no minutes are given")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--smoothing", type=float, default=0.0)
    parser.add_argument("--train-encoder", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def make_recipe(given: argparse.Namespace, *, max_held_out: int) -> QueryGeneratorRecipe:
    """Turn the command line into a recipe."""
    return QueryGeneratorRecipe(
        steps=given.steps,
        batch_size=given.batch,
        learning_rate=given.rate,
        dropout=given.dropout,
        label_smoothing=given.smoothing,
        max_held_out=max_held_out,
        patience=8,
        seed=given.seed,
    )


class Clock:
    """Prints progress with the pairs per second so far."""

    def __init__(self, batch_size: int) -> None:
        self.began = time.perf_counter()
        self._batch_size = batch_size

    def __call__(self, progress: Progress) -> None:
        """Print one line."""
        rate = progress.step * self._batch_size / (time.perf_counter() - self.began)
        line = f"  step {progress.step}: loss {progress.loss:.4f}, {rate:,.0f} pairs/s"
        if progress.validation is not None:
            line += f", held out {-progress.validation:.4f}"
        print(line, flush=True)


def plan_steps(
    network: Network,
    pairs: TrainingSet,
    recipe: QueryGeneratorRecipe,
    given: argparse.Namespace,
    device: torch.device,
) -> int:
    """Time some steps, and say how many fit into the minutes; a tenth is left for validation."""
    none = np.zeros(len(pairs), dtype=bool)
    seconds = 0.0
    for steps in (_TIMED_STEPS // 4, _TIMED_STEPS):  # the first warms up
        began = time.perf_counter()
        short = replace(recipe, steps=steps)
        train_query_generator(network, pairs, short, device=device, held_out=none)
        seconds = (time.perf_counter() - began) / steps
    print(f"{1000 * seconds:.0f} ms per step", flush=True)
    return max(1, int(0.9 * 60 * given.minutes / seconds))


def reread(folder: Path, encoder: Path, generator: QueryGenerator) -> QueryGeneratorNetwork:
    """Read the weights back as a user would; the encoder is the one at hand, unless trained."""
    own = folder / "encoder"
    base = own if own.is_dir() else encoder
    saved = read_saved(folder)
    return load_network(folder, saved, base=base, start_id=start_id(generator.inputs))


def write_examples(
    generator: QueryGenerator, pairs: TrainingSet, rows: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Write queries for held-out passages, greedy and sampled, beside the true ones."""
    chosen = np.random.default_rng(0).permutation(rows)[:NUM_EXAMPLES]
    passages = [pairs.documents.batch(pairs.document_rows[[row]]) for row in chosen]
    texts = generator.inputs.texts([each.subword_ids[0].tolist() for each in passages])
    true = [pairs.queries.batch(np.array([row])).subword_ids[0].tolist() for row in chosen]
    greedy = generator.generate(texts, method="greedy")
    sampled = generator.generate(texts, per_passage=3)
    examples = []
    for row, text, own, one, some in zip(
        chosen, texts, generator.inputs.texts(true), greedy, sampled, strict=True
    ):
        source = pairs.sources[pairs.source_ids[row]]
        examples.append({"source": source, "true": own, "greedy": one[0], "sampled": some})
        print(f"{source}: {text[:120]}\n  true    {own}\n  greedy  {one[0]}")
        print("\n".join(f"  sampled {each}" for each in some), flush=True)
    return examples


def describe(
    given: argparse.Namespace,
    recipe: QueryGeneratorRecipe,
    report: QueryGeneratorReport,
    device: torch.device,
    **saved: HeldOutLoss,
) -> dict[str, Any]:
    """Say what was trained, on what, and how well; `saved` as read back from its files."""
    return {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "settings": {
            key: value for key, value in vars(given).items() if not isinstance(value, Path)
        },
        "recipe": asdict(recipe),
        "steps": report.training.steps,
        "best_step": report.best_step,
        "pairs": report.pairs_by_source,
        "losses": report.training.losses,
        "validations": [(step, -score) for step, score in report.training.validations],
        "held_out": None if report.held_out is None else asdict(report.held_out),
        **{f"held_out_{name}": asdict(loss) for name, loss in saved.items()},
    }


if __name__ == "__main__":
    main()
