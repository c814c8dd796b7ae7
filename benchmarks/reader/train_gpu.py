"""Train the reader on a GPU, or for a few steps on a CPU, and measure it on held-out questions.

    python3 -m benchmarks.reader.train_gpu --encoder FOLDER --out OUT --steps 4000 [--name joint]
    python -m benchmarks.reader.train_gpu --encoder FOLDER --out OUT --steps 3 --batch 4 --judge 16

Needs torch, transformers, tokenizers, safetensors, the files that `pack` wrote, and MiniLM in the
Hugging Face layout (fp16 will do). Neighbours by MiniLM's vectors join BM25's as hard negatives,
ordered as a hybrid search would. `--collections` names what `rerank search` wrote, to judge how
development collections are reranked. `--leave-out` names sources that nothing is trained on, to see
what carries over to them.
Writes OUT/NAME (int8 weights, ready to be shipped), OUT/NAME.json and OUT/NAME.npz (what it says of
held-out questions, for `signs`), NAME.held-out.npz and NAME.collections.npz (what it says of what
the hybrid finds, for `rerank table`); figures are measured with the weights as they are shipped.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.reader.average import mix
from benchmarks.reader.mixing import print_table, save_read
from benchmarks.reader.opening import add_arguments, open_sets, training_rows
from benchmarks.reader.rerank import Candidates, read_candidates
from benchmarks.reader.signs import fit_weights, gather_signs
from quoth.answer.reading import save_weights
from quoth.models.bert_files import read_shape
from quoth.models.pretrained import (
    DEFAULT_NAME,
    DEFAULT_SHA256,
    EncoderSource,
    load_encoder,
    load_tokenizer,
)
from quoth.models.quantised import dequantise, quantise, read_sealed
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.files import WEIGHTS_FILE, own_tensors, read_saved, save_reader
from quoth.models.reader.inputs import ReaderInputs
from quoth.models.reader.network import ReaderNetwork
from quoth.training.loop import Progress
from quoth.training.reading.groups import GroupConfig
from quoth.training.reading.set import ReadingSet
from quoth.training.recipes.reader import ReaderRecipe, measure_reader, train_reader

TIMED_STEPS, SPARE = 60, 0.9  # a run whose plan left nothing to spare overran it
CHECKPOINT_EVERY = 500


def main() -> None:
    """Train, quantise, measure, write."""
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(given.seed)  # the heads start at random
    network, inputs = open_network(given.encoder, given.start)
    mark_id = load_tokenizer(given.encoder).token_to_id("?")
    began = time.perf_counter()
    reading, judged = open_sets(given, inputs, device)
    print(f"{len(reading):,} examples after {time.perf_counter() - began:.0f} s", flush=True)
    found = pickle.loads(given.collections.read_bytes()) if given.collections else []
    rows = training_rows(reading, given)
    recipe = make_recipe(given)
    settings = {"device": device, "mark_id": mark_id, "workers": given.workers}
    learn = partial(train_reader, network, reading, inputs, **settings)
    deadline = time.perf_counter() + 60 * given.minutes if given.minutes else float("inf")
    if given.minutes:
        recipe = replace(recipe, steps=plan_steps(learn, rows, recipe, given.minutes))
    clock = Clock(recipe.batch_size)
    watch = Watcher(given, deadline)
    network, report = learn(
        recipe, rows=rows, progress=clock, checkpoint=given.checkpoints, watch=watch
    )
    seconds = time.perf_counter() - clock.began
    print(f"{seconds:.0f} s of training {report.stopped_because}", flush=True)
    tensors = save_network(network, given, given.name)
    _load(network, dequantise(quantise(tensors, dtype=given.dtype)))
    content: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "settings": {key: str(value) for key, value in vars(given).items()},
        "recipe": asdict(recipe),
        "examples": {
            name: int((reading.source_ids[rows] == at).sum())
            for at, name in enumerate(reading.sources)
        },
        "steps": report.steps,
        "seconds": round(seconds, 1),
        "losses": report.losses,
    }
    report_path = given.out / f"{given.name}.json"
    report_path.write_text(json.dumps(content, indent=1) + "\n")
    judge = Judge(reading, inputs, [*judged, *found], given, device=device, mark_id=mark_id)
    content["held_out"] = judge(network, given.name)
    report_path.write_text(json.dumps(content, indent=1) + "\n")
    if given.start:
        before = open_network(given.encoder, given.start)[0]
        for share in map(float, filter(None, given.averages.split(","))):
            name = f"{given.name}-{share:g}"
            average(before, tensors, given, name, share=share)
            between = open_network(given.encoder, given.out / name)[0]
            content[f"held_out_{share:g}"] = judge(between, name)
            report_path.write_text(json.dumps(content, indent=1) + "\n")
        content["held_out_start"] = judge(before, "start")
        report_path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{time.perf_counter() - began:.0f} s in all", flush=True)


def average(
    before: ReaderNetwork,
    after: dict[str, torch.Tensor],
    given: argparse.Namespace,
    name: str,
    *,
    share: float,
) -> None:
    """Write a reader whose weights lie between those before and after."""
    shape = read_shape(given.encoder)
    assert shape is not None
    old = own_tensors(before, shape)
    mixed = mix([old, after], [1 - share, share])
    encoder = EncoderSource(DEFAULT_NAME, DEFAULT_SHA256)
    save_reader(given.out / name, mixed, ReaderConfig(), encoder=encoder, dtype=given.dtype)


class Judge:
    """Measures networks on held-out examples, and keeps what they say of them."""

    def __init__(
        self,
        reading: ReadingSet,
        inputs: ReaderInputs,
        found: Sequence[Candidates],
        given: argparse.Namespace,
        *,
        device: torch.device,
        mark_id: int,
    ) -> None:
        self._reading = reading
        self._inputs = inputs
        self._found = found
        self._given = given
        self._about: dict[str, Any] = {"device": device, "mark_id": mark_id}

    def __call__(self, network: ReaderNetwork, name: str) -> dict[str, Any]:
        """Rerank, gather signs, and measure."""
        out = self._given.out / name
        network = network.eval().to(self._about["device"])
        qualities = measure(network, self._reading, self._inputs, self._given, **self._about)
        held_out = np.flatnonzero(self._reading.held_out)
        held_out = np.random.default_rng(0).permutation(held_out)[: self._given.judge_signs]
        signs = gather_signs(network, self._reading, self._inputs, held_out, **self._about)
        np.savez_compressed(out.with_name(f"{name}.npz"), **signs)
        if out.is_dir():
            fitted = fit_weights(signs["groups"], signs["signs"].astype(float), signs["gold"])
            save_weights(out, tuple(fitted.tolist()))
        judge_reranking(network, self._found, out, self._about["device"])
        return qualities


class Watcher:
    """Ends a run in time, and keeps what was learnt so far now and then."""

    def __init__(self, given: argparse.Namespace, deadline: float) -> None:
        self._given = given
        self._deadline = deadline
        self._kept = time.perf_counter()

    def __call__(self, _step: int, network: ReaderNetwork) -> str:
        """Say whether time is up."""
        now = time.perf_counter()
        if self._given.keep_every and now - self._kept > self._given.keep_every:
            self._kept = now
            save_network(network, self._given, f"{self._given.name}-part")
        return "time is up" if now > self._deadline else ""


def save_network(network: ReaderNetwork, given: argparse.Namespace, name: str) -> dict[str, Any]:
    """Write a network as readers are shipped, and return its weights."""
    shape = read_shape(given.encoder)
    assert shape is not None
    tensors = own_tensors(network, shape)
    encoder = EncoderSource(DEFAULT_NAME, DEFAULT_SHA256)
    save_reader(given.out / name, tensors, ReaderConfig(), encoder=encoder, dtype=given.dtype)
    return tensors


def open_network(encoder: Path, start: Path | None) -> tuple[ReaderNetwork, ReaderInputs]:
    """Make a network of an encoder's layers, or of a reader's."""
    network = ReaderNetwork(load_encoder(encoder))
    if start:
        sealed = start / WEIGHTS_FILE
        _load(network, dequantise(read_sealed(sealed, sha256=read_saved(start).sha256)))
    return network, ReaderInputs(load_tokenizer(encoder), ReaderConfig())


def judge_reranking(
    network: ReaderNetwork, found: Sequence[Candidates], out: Path, device: torch.device
) -> None:
    """Read what the hybrid found, of held-out examples and of collections, and print tables."""
    began = time.perf_counter()
    read = {each.name: read_candidates(network, each, device) for each in found}
    for kind in ("held-out", "collections"):
        own = {name: each for name, each in read.items() if (":" in name) == (kind == "held-out")}
        if own:
            path = out.with_name(f"{out.name}.{kind}.npz")
            save_read(path, own)
            print_table(path)
    print(f"{time.perf_counter() - began:.0f} s of reranking", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="reader")
    parser.add_argument("--start", type=Path, help="go on from this reader")
    parser.add_argument("--collections", type=Path, help="what `rerank search` wrote")
    parser.add_argument("--leave-out", default="", help="sources, with commas between them")
    parser.add_argument(
        "--shares", default="", help="of some sources, and of pairs: NAME=SHARE,…,pairs=SHARE"
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="time to train for")
    parser.add_argument("--checkpoints", type=Path, help="keep the run here, or go on from there")
    parser.add_argument("--keep-every", type=float, default=0.0, help="seconds; 0 for never")
    parser.add_argument("--steps", type=int, default=4_000, help="where no minutes are given")
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--passages", type=int, default=5)
    parser.add_argument("--evidence", type=float, default=0.5)
    parser.add_argument("--relevance", type=float, default=1.0)
    parser.add_argument("--pair-passages", type=int, default=12)
    parser.add_argument("--average", type=float, default=0.998, help="decay of the weights' mean")
    parser.add_argument("--crop", type=float, default=0.3)
    parser.add_argument("--judge", type=int, default=1_500, help="held-out examples of a source")
    parser.add_argument("--judge-signs", type=int, default=6_000, help="held-out examples in all")
    parser.add_argument("--averages", default="", help="shares of what was learnt, to be tried")
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--workers", type=int, default=0, help="processes that make batches")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def make_recipe(given: argparse.Namespace) -> ReaderRecipe:
    """Turn the command line into a recipe."""
    return ReaderRecipe(
        steps=given.steps,
        batch_size=given.batch,
        learning_rate=given.rate,
        evidence_weight=given.evidence,
        relevance_weight=given.relevance,
        average_decay=given.average,
        checkpoint_every=CHECKPOINT_EVERY if given.checkpoints else 0,
        groups=GroupConfig(
            num_passages=given.passages,
            num_pair_passages=given.pair_passages,
            crop_share=given.crop,
        ),
        seed=given.seed,
    )


def plan_steps(
    learn: Callable[..., Any], rows: NDArray[np.int64], recipe: ReaderRecipe, minutes: float
) -> int:
    """Time some steps, and say how many fit into the minutes."""
    taken = []
    for steps in (10, 20, 20 + TIMED_STEPS):  # the first warm up
        began = time.perf_counter()
        learn(replace(recipe, steps=steps), rows=rows)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    seconds = (taken[2] - taken[1]) / TIMED_STEPS
    minutes -= sum(taken) / 60
    print(f"{1000 * seconds:.0f} ms per step", flush=True)
    return max(1, int(SPARE * 60 * minutes / seconds))


def measure(
    network: ReaderNetwork,
    reading: ReadingSet,
    inputs: ReaderInputs,
    given: argparse.Namespace,
    *,
    device: torch.device,
    mark_id: int,
) -> dict[str, Any]:
    """Measure each source's held-out examples; all of a source that was left out."""
    qualities = {}
    left_out = given.leave_out.split(",")
    for at, source in enumerate(reading.sources):
        own = reading.source_ids == at
        rows = np.flatnonzero(own if source in left_out else own & reading.held_out)
        rows = np.random.default_rng(0).permutation(rows)[: given.judge]
        quality = measure_reader(
            network, reading, inputs, np.sort(rows), device=device, mark_id=mark_id
        )
        qualities[source] = asdict(quality)
        values = " ".join(f"{value:.3f}" for value in list(qualities[source].values())[1:])
        print(f"{source:24} {quality.num_questions:5} {values}", flush=True)
    has_spans = [each for each in qualities.values() if each["num_questions"]]
    total = max(1, sum(each["num_questions"] for each in has_spans))
    for name in ("exact", "sentence", "evidence", "silence_area", "swapped_area"):
        mean = sum(each[name] * each["num_questions"] for each in has_spans) / total
        print(f"{name}: {mean:.4f}", flush=True)
    return qualities


def _load(network: ReaderNetwork, tensors: dict[str, torch.Tensor]) -> None:
    """Put the weights as they are shipped into a network."""
    heads = ("places.", "relevance.")
    state = {
        name if name.startswith(heads) else f"encoder.{name}": tensor
        for name, tensor in tensors.items()
    }
    network.load_state_dict(state, strict=False)


class Clock:
    """Prints progress with the examples per second so far."""

    def __init__(self, batch_size: int) -> None:
        self.began = time.perf_counter()
        self._batch_size = batch_size

    def __call__(self, progress: Progress) -> None:
        """Print one line."""
        if progress.step % 200 == 0 or progress.step < 200:
            rate = progress.step * self._batch_size / (time.perf_counter() - self.began)
            print(f"  step {progress.step}: loss {progress.loss:.4f}, {rate:,.0f}/s", flush=True)


if __name__ == "__main__":
    main()
