"""Train dynamic language models and their ablations on a GPU, or for a few steps on a CPU.

    python3 -m benchmarks.generation.train_gpu --base FOLDER --out OUT --arms plain,quoth \\
        --minutes 4
    python -m benchmarks.generation.train_gpu --base FOLDER --out OUT --arms quoth --steps 3 \\
        --batch 2 --quote-batch 2 --encoder-layers 2 --chunk-subwords 64 --valid 4

Arms: `plain` (fine-tuned without phrases), `quoth` (N-words, self-retrieval and generation, all
losses), `output_only` (phrases are read as subwords, self-retrieval), `negatives:NAME` (a row of
Table 5), `fmm:NAME` and `ids:NAME` (one of its rows with FMM or N-ids), `sampling:NAME` (n_words,
n_ids, fmm), `no_text`, `no_kl`, `shared` (one vector for reading and writing a phrase); and answers
that quote: `cited`, `cited_unfold` (phrases are read as subwords), `cited_batch` (phrases of the
whole batch are offered) and `cited_plain` (no phrases).
`--choice` weighs the loss among phrases alone, `--sentence` the one among sentences.
`--start FOLDER` goes on from what another arm wrote, whichever way that one reads phrases.

Needs torch, transformers, tokenizers, safetensors, numpy, numba and what `pack` wrote. With
`--minutes`, steps are timed first and as many planned as fit. Writes OUT/ARM (adapters, bf16) and
OUT/ARM.json: settings, curve, and the plain loss on held-out articles before and after. With
`--checkpoint-every`, an arm that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch

from benchmarks.generation.joined_sets import join_sets
from benchmarks.generation.negatives import SAMPLING_BY_KIND, TABLE_5
from quoth.artifact import write_text_atomically
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, open_dynamic_lm
from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.training.loop import Progress
from quoth.training.quoting.batches import BatchMaker
from quoth.training.quoting.continuations import drawn_phrases, make_continuations
from quoth.training.quoting.phrase_negatives import phrase_key
from quoth.training.quoting.set import (
    Continuations,
    DynamicSet,
    SubwordTable,
    make_quotations,
    make_table,
    open_dynamic_set,
)
from quoth.training.recipes.dynamic_lm import (
    DynamicModule,
    DynamicProgress,
    plain_loss,
    train_dynamic_lm,
)
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

DATA = Path("benchmarks/.cache/generation")
CITED_SHARE = 0.75
_TIMED_STEPS = 20


def main() -> None:
    """Train the arms one after the other; the first to fail ends the run."""
    given = arguments()
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    arms = given.arms.split(",")
    texts = open_texts(given)
    valid = first_rows(open_dynamic_set(given.data / "valid.bin").texts, given)
    quotes = quotes_valid = None
    if any(arm.startswith("cited") for arm in arms):
        quotes = first_quotations(open_dynamic_set(given.data / "quotes.bin"), given.quotes)
        quotes_valid = open_dynamic_set(given.data / "quotes-valid.bin")
    continuations = Continuations()
    for arm in arms:
        is_cited = arm.startswith("cited")
        own = join_sets([texts, quotes]) if is_cited and quotes is not None else texts
        continuations = train_arm(
            arm,
            replace(own, continuations=continuations),
            given,
            device=device,
            valid=valid,
            quotes_valid=quotes_valid if is_cited else None,
        )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True, help="folder of the language model")
    parser.add_argument("--start", type=Path, help="folder of a trained arm to go on from")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--files", type=int, default=2, help="files of texts to read")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arms", default="quoth")
    parser.add_argument("--minutes", type=float, default=0.0, help="time to train an arm for")
    parser.add_argument("--steps", type=int, default=1000, help="where no minutes are given")
    parser.add_argument("--latest", type=float, default=0.0, help="minutes after which to save")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--quote-batch", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument(
        "--choice", type=float, default=1.0, help="weight of the loss among phrases"
    )
    parser.add_argument(
        "--sentence", type=float, default=1.0, help="weight of the loss among sentences"
    )
    parser.add_argument("--tuning", choices=("lora", "full"), default="lora")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.0, help="of the adapters")
    parser.add_argument("--quotes", type=int, default=0, help="quotations learnt; 0 for all")
    parser.add_argument("--budget", type=int, default=128, help="see `candidate_budget`")
    parser.add_argument("--quote-share", type=float, default=CITED_SHARE, help="of cited arms")
    parser.add_argument("--reach", type=float, default=3.0, help="see models/dynamic_lm/config.py")
    parser.add_argument("--encoder-layers", type=int, default=0)
    parser.add_argument("--chunk-subwords", type=int, default=512, help="cut texts to this")
    parser.add_argument("--continuations", type=int, default=400_000, help="most that are made")
    parser.add_argument("--valid", type=int, default=256, help="held-out chunks that are measured")
    parser.add_argument("--report-every", type=int, default=20)
    parser.add_argument("--checkpoint-every", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes that make batches")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def model_config(arm: str, given: argparse.Namespace) -> DynamicLMConfig:
    """Return the model's settings under an arm."""
    return DynamicLMConfig(
        tuning=given.tuning,
        lora_rank=given.rank,
        lora_alpha=4.0 * given.rank,
        encoder_layers=given.encoder_layers,
        reach=given.reach,
        lora_dropout=given.dropout,
        phrase_input="unfold" if arm in ("output_only", "cited_unfold") else "vector",
        vectors="shared" if arm == "shared" else "separate",
    )


def recipe_of(arm: str, given: argparse.Namespace) -> DynamicLMRecipe:
    """Return the settings of an arm."""
    recipe = DynamicLMRecipe(
        steps=given.steps,
        batch_size=given.batch,
        quote_batch_size=given.quote_batch,
        accumulate=given.accumulate,
        learning_rate=given.rate,
        choice_weight=given.choice,
        sentence_weight=given.sentence,
        candidate_budget=given.budget,
        report_every=given.report_every,
        checkpoint_every=given.checkpoint_every,
        seed=given.seed,
    )
    kind, _, name = arm.partition(":")
    if kind in SAMPLING_BY_KIND:
        sampling = replace(recipe.sampling, method=SAMPLING_BY_KIND[kind])
        return replace(recipe, sampling=sampling, negatives=TABLE_5[name])
    if kind == "sampling":
        return replace(recipe, sampling=replace(recipe.sampling, method=name))  # type: ignore[arg-type]
    cited = replace(recipe, quote_share=given.quote_share)
    known = {
        "quoth": recipe,
        "plain": recipe.without_phrases(),
        "output_only": replace(recipe, kl_weight=0.0, negatives=TABLE_5["self_retrieval"]),
        "no_text": replace(recipe, plain_weight=0.0),
        "no_kl": replace(recipe, kl_weight=0.0),
        "shared": recipe,
        "cited": cited,
        "cited_unfold": replace(cited, kl_weight=0.0),
        "cited_batch": replace(cited, quote_columns="batch"),
        "cited_plain": cited.without_phrases(),
    }
    if arm not in known:
        raise SystemExit(f"no arm {arm}; use {', '.join(known)}, negatives:, fmm:, ids:, sampling:")
    return known[arm]


def train_arm(
    arm: str,
    dynamic_set: DynamicSet,
    given: argparse.Namespace,
    *,
    device: torch.device,
    valid: SubwordTable,
    quotes_valid: DynamicSet | None,
) -> Continuations:
    """Train and save one arm; gives the continuations back, for the arms that follow."""
    model = start_model(arm, given, device)
    recipe = recipe_of(arm, given)
    before = plain_loss(model.network, valid)
    dynamic_set, made = with_continuations(model, dynamic_set, recipe, given)
    seconds_per_step = 0.0
    if given.minutes:
        seconds_per_step = time_steps(model, dynamic_set, recipe, device, workers=given.workers)
        steps = max(1, int(60 * given.minutes / seconds_per_step))
        recipe = replace(recipe, steps=steps)
    print(f"{arm}: {recipe.steps} steps, {len(made.subword_ids):,} continuations", flush=True)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    latest = began + 60 * given.latest if given.latest else math.inf
    folder = given.out / arm.replace(":", "-")
    trained, report = train_dynamic_lm(
        model,
        dynamic_set,
        config=recipe,
        device=device,
        progress=tell,
        checkpoint=folder.with_suffix(".steps") if given.checkpoint_every else None,
        before_step=lambda _step: "out of time" if time.perf_counter() > latest else "",
        workers=given.workers,
    )
    seconds = time.perf_counter() - began
    trained.save(folder)
    after = plain_loss(trained.network, valid)
    content = describe(arm, model, dynamic_set, recipe, device=device)
    content |= {
        "steps": report.training.steps,
        "seconds": round(seconds, 1),
        "seconds_per_step": round(seconds / max(report.training.steps, 1), 4),
        "timed_seconds_per_step": round(seconds_per_step, 4),
        "plain_loss": [before, after],
        "plain_perplexity": [math.exp(before), math.exp(after)],
        "curve": [each._asdict() for each in report.curve],
    }
    if quotes_valid is not None:
        content["quotations_held_out"] = measure_quotes(
            trained, quotes_valid, recipe, count=given.valid
        )
    write_text_atomically(folder.with_suffix(".json"), json.dumps(content, indent=1) + "\n")
    print(
        f"{arm}: {seconds:.0f} s, plain perplexity {math.exp(before):.2f} → {math.exp(after):.2f},"
        f" peak {content['peak_gib']}",
        flush=True,
    )
    return made


def describe(
    arm: str,
    model: DynamicLM,
    dynamic_set: DynamicSet,
    recipe: DynamicLMRecipe,
    *,
    device: torch.device,
) -> dict[str, Any]:
    """Say what was trained, on what, and what it took of the device."""
    is_cuda = device.type == "cuda"
    return {
        "arm": arm,
        "device": torch.cuda.get_device_name() if is_cuda else "cpu",
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if is_cuda else None,
        "torch": torch.__version__,
        "model": asdict(model.config),
        "recipe": asdict(recipe),
        "texts": len(dynamic_set.texts),
        "quotations": len(dynamic_set.quotations),
        "continuations": len(dynamic_set.continuations.subword_ids),
    }


def start_model(arm: str, given: argparse.Namespace, device: torch.device) -> DynamicLM:
    """Start from the base, or from what another arm wrote."""
    config = model_config(arm, given)
    if given.start is not None:
        found = open_dynamic_lm(given.start, base=given.base, device=device)
        own = replace(found.config, phrase_input=config.phrase_input)
        return DynamicLM(found.network, inputs=found.inputs, config=own, source=found.source)
    return DynamicLM.start(given.base, config=config, device=device, seed=given.seed)


def with_continuations(
    model: DynamicLM, dynamic_set: DynamicSet, recipe: DynamicLMRecipe, given: argparse.Namespace
) -> tuple[DynamicSet, Continuations]:
    """Make the continuations of the phrases that come first, unless they are there already."""
    known = dynamic_set.continuations
    if not (recipe.mixed_weight and recipe.negatives.generation):
        return dynamic_set, known
    maker = BatchMaker(dynamic_set, recipe)
    wanted = dict.fromkeys(quoted_phrases(dynamic_set)) if recipe.quote_share else {}
    for number in range(recipe.steps * recipe.accumulate if not given.minutes else 10**6):
        if len(wanted) >= given.continuations:
            break
        if not maker.is_quotation(number):
            wanted |= dict.fromkeys(drawn_phrases(maker, [number]))
    new = [phrase for phrase in wanted if not known[phrase]]
    device = model.device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        made = make_continuations(
            model.network, new, length=recipe.negatives.extension, batch_size=4096
        )
    joined = Continuations({**known.subword_ids, **made.subword_ids})
    return replace(dynamic_set, continuations=joined), joined


def quoted_phrases(dynamic_set: DynamicSet) -> list[bytes]:
    """List the phrases of all quotations, which are the same in every epoch."""
    quotations = (dynamic_set.quotations[row] for row in range(len(dynamic_set.quotations)))
    return [
        phrase_key(each.target_ids[start:end])
        for each in quotations
        for start, end in each.phrases[:, :2].tolist()
    ]


def time_steps(
    model: DynamicLM,
    dynamic_set: DynamicSet,
    recipe: DynamicLMRecipe,
    device: torch.device,
    *,
    workers: int,
) -> float:
    """Return the seconds of a step; the first few warm up and do not count."""
    clock: list[float] = []
    short = replace(recipe, steps=2 * _TIMED_STEPS, report_every=1, checkpoint_every=0)
    train_dynamic_lm(
        model,
        dynamic_set,
        config=short,
        device=device,
        progress=lambda _done: clock.append(time.perf_counter()),
        workers=workers,
    )
    return (clock[-1] - clock[_TIMED_STEPS - 1]) / _TIMED_STEPS


@torch.inference_mode()
def measure_quotes(
    model: DynamicLM, quotes: DynamicSet, recipe: DynamicLMRecipe, *, count: int
) -> dict[str, float]:
    """Measure held-out quotations, teacher-forced: losses, and how many phrases are found."""
    alone = replace(recipe, quote_share=1.0, quote_batch_size=4)
    unfolds = model.config.phrase_input == "unfold"
    module = DynamicModule(model.network, alone, unfolds=unfolds).eval()
    maker = BatchMaker(quotes, alone, mark=model.passage_marker)
    numbers = range(max(1, min(count, len(quotes.quotations)) // 4))
    losses = [float(module(maker[number].to(model.device))) for number in numbers]
    found = module.tally.report(Progress(0, float(np.mean(losses)), 0.0))
    return {name: value for name, value in found._asdict().items() if name != "learning_rate"}


def open_texts(given: argparse.Namespace) -> DynamicSet:
    """Read the files of texts that are there, up to the number asked for."""
    paths = [given.data / f"texts-{number}.bin" for number in range(given.files)]
    sets = [open_dynamic_set(path) for path in paths if path.exists()]
    if not sets:
        raise SystemExit(f"there is no {paths[0]}; run benchmarks.generation.pack")
    joined = join_sets(sets) if len(sets) > 1 else sets[0]
    if given.chunk_subwords >= 512:
        return joined
    return replace(joined, texts=shorten(joined.texts, given.chunk_subwords))


def first_quotations(packed: DynamicSet, count: int) -> DynamicSet:
    """Keep the first quotations, which were shuffled when packed; 0 keeps all."""
    if not 0 < count < len(packed.quotations):
        return packed
    kept = make_quotations([packed.quotations[row] for row in range(count)])
    return replace(packed, quotations=kept)


def shorten(texts: SubwordTable, length: int) -> SubwordTable:
    """Cut texts to fewer subwords, for a trial on a small machine."""
    whole = [texts[row] for row in range(len(texts))]
    return make_table(
        [SubwordText(each.subword_ids[:length], each.word_starts[:length]) for each in whole]
    )


def first_rows(texts: SubwordTable, given: argparse.Namespace) -> SubwordTable:
    """Take held-out chunks evenly."""
    rows = np.unique(np.linspace(0, len(texts) - 1, given.valid).astype(int))
    return shorten(make_table([texts[int(row)] for row in rows]), given.chunk_subwords)


def tell(done: DynamicProgress) -> None:
    """Print one line."""
    print(
        f"  {done.step}: loss {done.loss:.3f} (mixed {done.mixed:.3f}, plain {done.plain:.3f},"
        f" kl {done.kl:.3f}, choice {done.choice:.3f}, sentence {done.sentence:.3f} found"
        f" {done.sentence_recall:.3f}), phrases {done.phrase_share:.3f} of choices,"
        f" recall {done.phrase_recall:.3f}, precision {done.phrase_precision:.3f},"
        f" {done.columns:.0f} columns",
        flush=True,
    )


if __name__ == "__main__":
    main()
