"""Train slots to find passages in their order, the paper's decoding, and see what holds them back.

    python3 -m benchmarks.pixar_pretraining.ordered train --packed FOLDER --encoder FOLDER
        --start WEIGHTS --out OUT [--arms mean,cosine,…] [--steps 1000]
    python -m benchmarks.pixar_pretraining.ordered report OUT

Held-out queries find passages by identifiers that are read in three ways, slot t by phrase t:

mean      the paper's: mean over slots of x_t · w + bias
unbiased  the same without bias, which is lower the rarer a phrase is
cosine    Σ ω x_t · w / ‖Σ ω w‖, ω being rarities: bag_cos where all slots are x₀

Arms go on from the same weights. *shipped_loss* is the mix that they were trained by; in *mean* and
*cosine* passages compete by that reading alone, which follows the teacher, too, and the paper's
losses keep their small share; *paper* has the paper's losses alone. *cosine_input* reads slots off
the first positions of the query, as in the paper; the slot decoder's weights are then of no use.
Writes OUT/ARM.json and OUT/ARM.npz (reciprocal ranks of every query); *report* judges them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from benchmarks.pixar_pretraining.batches import Settings
from benchmarks.pixar_pretraining.data import SLOTS, held_out_field, read_pairs
from benchmarks.pixar_pretraining.losses import (
    choose_kind,
    compete,
    follow,
    paper_losses,
)
from benchmarks.pixar_pretraining.train import CONFIG, Trainer, save, start, train
from quoth.models.pixar.files import build_network
from quoth.models.pixar.network import PixarNetwork, PixarVectors
from quoth.models.pretrained import load_encoder
from quoth.models.quantised import dequantise

RESULTS = Path(__file__).parent / "results" / "ordered.json"
READINGS = ("mean", "unbiased", "cosine")


@dataclass(frozen=True)
class Arm:
    """What passages compete by, and where slots come from."""

    reading: str = ""
    """Empty: the losses that the shipped network was trained by."""

    slots: str = "decoder"
    contrast: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)


ARMS = {
    "shipped_loss": Arm(),
    "mean": Arm("mean", settings={"scale": 3.0}),
    "cosine": Arm("cosine"),
    "cosine_input": Arm("cosine", slots="input"),
    "paper": Arm("mean", contrast=0.0, settings={"paper_share": 1.0, "teacher_share": 0.0}),
}


def read_slots(
    slots: Tensor,  # (B, S, D)
    table: Tensor,  # (V, D)
    ids: Tensor,  # (I, L), -1 where there is none
    *,
    weights: Tensor,  # (V,)
    reading: str,
) -> Tensor:  # (B, I)
    """Score identifiers by slots in their order.

    >>> slots = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> ids, weights = torch.tensor([[0, 1], [1, 0], [0, -1]]), torch.tensor([1.0, 2.0])
    >>> read_slots(slots, torch.eye(2), ids, weights=weights, reading="mean").tolist()
    [[-0.5, -1.5, 0.0]]
    >>> read_slots(slots, torch.eye(2), ids, weights=weights, reading="cosine").round(decimals=2)
    tensor([[1.3400, 0.0000, 1.0000]])
    """
    ids = ids[:, : slots.shape[1]]
    there = (ids >= 0).float()
    share = weights[ids.clamp_min(0)] * there  # (I, L)
    rows = table[ids.clamp_min(0)]
    if reading == "cosine":
        norms = torch.einsum("ild,il->id", rows, share).norm(dim=1).clamp_min(1e-6)
        rows = rows * (share / norms[:, None])[..., None]
    else:
        rows = rows * (there / there.sum(1, keepdim=True).clamp_min(1.0))[..., None]
    kind = choose_kind(rows)
    asked = slots[:, : ids.shape[1]].flatten(1).to(kind)
    scores = (asked @ rows.flatten(1).to(kind).T).float()
    if reading == "mean":
        scores = scores - share.sum(1) / there.sum(1).clamp_min(1.0)
    return scores


class OrderedTrainer(Trainer):
    """Lets passages compete by slots in their order."""

    arm = Arm()

    def losses(self, step: int, total: int) -> tuple[Tensor, list[float]]:
        """Return the loss of one batch, and its terms."""
        if not self.arm.reading:
            return super().losses(step, total)
        own, pairs, batches = self.own, self.pairs, self.batches
        asked = batches.draw()
        passages, place = pairs.passage_of[asked].unique(return_inverse=True)
        identifiers, owner = batches.draw_identifiers(passages, own.each)
        queries, lent = batches.lend_sentences(asked, place, identifiers=identifiers, owner=owner)
        ids = pairs.identifiers.ids[identifiers].long()[:, :SLOTS]
        distinct, spots = ids.clamp_min(0).unique(return_inverse=True)
        with torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
        ):
            vectors = self.network(queries)
            rows = self.network.row_vectors(pairs.phrases.batch(distinct))
        rows = rows.float()
        there = torch.where(ids >= 0, spots, -1)
        read = read_slots(
            shorten(vectors, self.arm.reading),
            rows,
            there,
            weights=self.weights[distinct],
            reading=self.arm.reading,
        )
        scores = self.log_scale.exp().clamp(max=60.0) * read
        found = compete(
            scores, owner, place, count=len(passages), mean_share=own.mean_share, lent=lent
        )
        has_query = ~lent.any(1)
        taught = follow(scores[has_query], self._wanted(asked[has_query], identifiers))
        some = batches.draw_some(len(scores), 128)
        best = scores.detach().masked_fill(lent, -1e4)
        best = best.masked_fill(owner[None] != place[:, None], -torch.inf)
        table = self.table.index_copy(0, distinct, rows)
        paper = paper_losses(
            vectors, ids[best[some].argmax(1)], table=table, bias=self.bias, some=some
        )
        ramp = min(1.0, 5 * step / total)
        loss = (
            self.arm.contrast * found
            + own.teacher_share * taught
            + own.paper_share * (paper[0] + 0.25 * paper[1] + ramp * paper[2])
        )
        return loss, [float(each.detach()) for each in (found, taught, *paper)]

    @torch.no_grad()
    def judge(self, *, num_passages: int = 20_000) -> dict[str, float]:
        """Return the mean of every reading."""
        found = self.judge_queries(num_passages=num_passages)
        return {name: float(each.mean()) for name, each in found.items()}

    @torch.no_grad()
    def judge_queries(self, *, num_passages: int = 20_000) -> dict[str, NDArray[np.float64]]:
        """Return the reciprocal rank, up to 10, of every held-out query, by every reading."""
        field = held_out_field(self.pairs, num_passages)
        held = self.pairs.held_out
        self.refresh()
        self.network.eval()
        bags = self.bags(field.identifiers)
        found: dict[str, list[Tensor]] = {}
        for some, spot in zip(held.split(100), field.place.split(100), strict=True):
            with torch.autocast(
                self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
            ):
                vectors = self.network(self.pairs.queries.batch(some))
            sheets = {"bag_cos": functional.normalize(vectors.pooled, dim=1) @ bags.T}
            sheets["bag_max"] = self.by_words(vectors, field.identifiers)
            for reading in READINGS:
                sheets[reading] = self.read(shorten(vectors, reading), field.identifiers, reading)
            for name, sheet in sheets.items():
                for way, final in field.ways(sheet).items():
                    rank = 1 + (final > final.gather(1, spot[:, None])).sum(1)
                    gain = torch.where(rank <= 10, 1.0 / rank, 0.0)
                    found.setdefault(f"{name} {way}", []).append(gain)
        self.network.train()
        return {name: torch.cat(each).double().cpu().numpy() for name, each in found.items()}

    def read(self, slots: Tensor, identifiers: Tensor, reading: str) -> Tensor:  # (B, I)
        """Score many identifiers by slots in their order."""
        return torch.cat(
            [
                read_slots(
                    slots,
                    self.table,
                    self.pairs.identifiers.ids[some, :SLOTS].long(),
                    weights=self.weights,
                    reading=reading,
                )
                for some in identifiers.split(8_192)
            ],
            1,
        )


def shorten(vectors: PixarVectors, reading: str) -> Tensor:  # (B, S, D)
    """Measure slots by the length of x₀ where cosines are read, which changes no ranking."""
    if reading != "cosine":
        return vectors.slots
    lengths: Tensor = vectors.pooled.norm(dim=1).clamp_min(1e-6)
    return vectors.slots / lengths[:, None, None]


def fresh_network(
    arm: Arm, given: argparse.Namespace, device: torch.device, *, slot_id: int
) -> PixarNetwork:
    """Start an arm from the weights that were given, as far as its parts are the same."""
    torch.manual_seed(given.seed)
    config = replace(CONFIG, slots=arm.slots)
    network = build_network(load_encoder(given.encoder), config, slot_id=slot_id).to(device)
    own = network.state_dict()
    dropped = ("output.",) if arm.slots != "decoder" else ()
    weights = {
        name: tensor
        for name, tensor in read_weights(given.start).items()
        if name in own and not name.startswith(dropped)
    }
    network.load_state_dict(weights, strict=False)
    print(f"{len(weights)} tensors of the start", flush=True)
    for name, parameter in network.named_parameters():
        if "word_embeddings" in name:
            parameter.requires_grad_(False)
    return network


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read saved tensors."""
    from safetensors.torch import load_file

    return dequantise(load_file(path))


def train_arms(given: argparse.Namespace) -> None:
    """Train and judge arms one after the other, from the same weights."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    given.out.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    network, inputs = start(given.encoder, device, seed=given.seed)
    pairs = read_pairs(given.packed, inputs, device, most=given.pairs)
    base = Settings(batch=given.batch, seed=given.seed)
    trainer = OrderedTrainer(network, pairs, base, inputs)
    mixes = trainer.choose_mix()
    print(f"teacher after {time.perf_counter() - begin:.1f} s: {mixes}", flush=True)
    for name in given.arms.split(","):
        trainer.arm = ARMS[name]
        own = replace(base, **trainer.arm.settings)
        trainer.begin(fresh_network(ARMS[name], given, device, slot_id=inputs.mask_id), own)
        before = trainer.judge_queries(num_passages=given.passages)
        print("before", {way: round(float(each.mean()), 4) for way, each in before.items()})
        log: list[Any] = []
        began = time.perf_counter()
        steps = train(trainer, seconds=given.seconds, most_steps=given.steps, log=log)
        seconds = time.perf_counter() - began
        after = trainer.judge_queries(num_passages=given.passages)
        print(name, {way: round(float(each.mean()), 4) for way, each in after.items()}, flush=True)
        arrays = {f"before {way}": each for way, each in before.items()}
        arrays |= {f"after {way}": each for way, each in after.items()}
        np.savez_compressed(given.out / f"{name}.npz", **arrays)
        content = {
            "arm": name,
            "steps": steps,
            "seconds": round(seconds, 1),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "settings": vars(own),
            "passages": given.passages,
            "log": log,
        }
        (given.out / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
        if given.save:
            save(trainer.network, given.out / f"{name}.safetensors")


def report(folder: Path, out: Path) -> None:
    """Write what was found with intervals, and differences, paired by query."""
    rows = []
    for name in ARMS:
        path = folder / f"{name}.json"
        if path.exists():
            with np.load(path.with_suffix(".npz")) as arrays:
                rows.append(describe(json.loads(path.read_text()), dict(arrays)))
    out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def describe(trial: Mapping[str, Any], found: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Return an arm's means before and after, its gains, and how far it is above bags, after."""
    from benchmarks.citations.report import mean_of

    told: dict[str, dict[str, Any]] = {"before": {}, "after": {}, "gain": {}, "over_bags": {}}
    for key, after in found.items():
        when, _, way = key.partition(" ")
        if when == "after":
            before, bags = found[f"before {way}"], found[f"after bag_cos {way.partition(' ')[2]}"]
            told["before"][_plain(way)] = mean_of(before.tolist())
            told["after"][_plain(way)] = mean_of(after.tolist())
            told["gain"][_plain(way)] = mean_of((after - before).tolist())
            told["over_bags"][_plain(way)] = mean_of((after - bags).tolist())
    facts = {key: value for key, value in trial.items() if key != "log"}
    return {**facts, "queries": len(next(iter(found.values()))), **told}


def _plain(way: str) -> str:
    return way.replace("mean/2", "half mean")


def main() -> None:
    """Train, or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("train", "report"))
    parser.add_argument("folder", type=Path, nargs="?", help="what training wrote")
    parser.add_argument("--packed", type=Path)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--start", type=Path, help="weights that all arms start from")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e6, help="most time of an arm")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=0, help="most pairs, for a trial")
    parser.add_argument("--passages", type=int, default=20_000, help="that held-out ones are among")
    parser.add_argument("--save", action="store_true", help="keep the weights of every arm")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.kind == "train":
        train_arms(given)
    else:
        report(given.folder, given.out)


if __name__ == "__main__":
    main()
