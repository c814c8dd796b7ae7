"""Train PIXAR across collections on a GPU, then search collections that it never saw.

    python3 -m benchmarks.pixar_pretraining.train --packed FOLDER --encoder FOLDER --out OUT
        --seconds 300 [--start EARLIER.safetensors]

A row of the head is the network's own vector of the phrase's text, times a learned length, so that
a phrase that was never trained has a valid row. `losses.py` holds what is lost.

Half of the batches are of neighbouring passages. A share of the queries is replaced by a sentence
of the passage, which is then no identifier of it; half of the time the title stands before
sentences, as it does in searching. The teacher's mix is the one that finds held-out pairs best.
Steps follow from the speed of the first ones. Writes pixar.safetensors and train.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.pixar_pretraining.batches import GROUP, Batches, Settings
from benchmarks.pixar_pretraining.data import (
    SLOTS,
    Pairs,
    encode_all,
    find_neighbours,
    held_out_field,
    make_teacher,
    read_pairs,
)
from benchmarks.pixar_pretraining.losses import (
    compete,
    count_phrases,
    follow,
    match_words,
    paper_losses,
    score_slots,
)
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.files import build_network
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.network import PixarNetwork, PixarVectors
from quoth.models.pretrained import load_encoder, load_tokenizer
from quoth.models.quantised import dequantise, quantise
from quoth.vocabulary.phrases.rarity import rarities

WORDS = "encoder.encoder.embeddings.word_embeddings.weight"
CONFIG = PixarConfig(num_slots=SLOTS, row_lengths=True, unit_rows=False, word_vectors=True)


class Trainer:
    """The network, the pairs and the losses of a batch."""

    def __init__(self, network: PixarNetwork, pairs: Pairs, own: Settings, inputs: Any) -> None:
        self.pairs = pairs
        self.device = pairs.starts.device
        self.teacher = make_teacher(network, pairs, special_ids(inputs))
        self.near = find_neighbours(pairs, self.teacher, count=GROUP)
        self.batches = Batches(pairs, self.near, self.teacher.words)
        uses = pairs.uses.cpu().numpy()
        self.weights = torch.from_numpy(rarities(uses)).to(self.device)
        self.bias = -self.weights
        self.mix = (0.0, 0.0)
        self.table = torch.zeros(len(uses), network.width, device=self.device)
        self.begin(network, own)

    def begin(self, network: PixarNetwork, own: Settings) -> None:
        """Train this network from now on, by these settings."""
        self.network, self.own = network, own
        self.log_scale = nn.Parameter(torch.tensor(math.log(own.scale), device=self.device))
        self.batches.begin(own)

    def losses(self, step: int, total: int) -> tuple[Tensor, list[float]]:
        """Return the loss of one batch, and its terms."""
        own, pairs, batches = self.own, self.pairs, self.batches
        asked = batches.draw()
        passages, place = pairs.passage_of[asked].unique(return_inverse=True)
        identifiers, owner = batches.draw_identifiers(passages, own.each)
        queries, lent = batches.lend_sentences(asked, place, identifiers=identifiers, owner=owner)
        ids = pairs.identifiers.ids[identifiers].long()
        titled = batches.add_titles(ids, identifiers, passages=passages[owner])
        distinct, spots = titled.clamp_min(0).unique(return_inverse=True)
        with torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
        ):
            vectors = self.network(queries)
            rows = self.network.row_vectors(pairs.phrases.batch(distinct))
        rows = rows.float()
        unit = functional.normalize(vectors.pooled, dim=1)
        sheet = count_phrases(spots, titled >= 0, count=len(distinct)) * self.weights[distinct]
        norms = (sheet @ rows).norm(dim=1)  # (I,)
        scale = self.log_scale.exp().clamp(max=60.0)
        by_pooled = unit @ rows.T  # (B, V)
        scores = scale * (by_pooled @ sheet.T) / norms  # (B, I)
        by_word = (by_pooled + match_words(vectors.words, rows)) @ sheet.T
        best = scale * by_word / norms
        ids = ids[:, :SLOTS]
        means = score_slots(vectors, rows[spots[:, :SLOTS]], ids, bias=self.bias)
        bag, words, ordered = (
            compete(each, owner, place, count=len(passages), mean_share=own.mean_share, lent=lent)
            for each in (scores, best, own.ordered_scale * means)
        )
        has_query = ~lent.any(1)
        taught = follow(best[has_query], self._wanted(asked[has_query], identifiers))
        some = batches.draw_some(len(scores), 128)
        own_scores = scores.detach().masked_fill(lent, -1e4)
        own_scores = own_scores.masked_fill(owner[None] != place[:, None], -torch.inf)
        target = ids[own_scores[some].argmax(1)]  # (128, L) each passage's best identifier
        table = self.table.index_copy(0, distinct, rows)
        paper = paper_losses(vectors, target, table=table, bias=self.bias, some=some)
        ramp = min(1.0, 5 * step / total)
        loss = (
            words
            + own.bag_share * bag
            + own.teacher_share * taught
            + own.ordered_share * ordered
            + own.paper_share * (paper[0] + 0.25 * paper[1] + ramp * paper[2])
        )
        return loss, [float(each.detach()) for each in (words, bag, taught, ordered, *paper)]

    @torch.no_grad()
    def _wanted(self, asked: Tensor, identifiers: Tensor) -> Tensor:
        vectors, words = self.mix
        wanted = vectors * self.teacher.cosines(asked, identifiers)
        return wanted + words * self.teacher.bm25(asked, identifiers)

    @torch.no_grad()
    def refresh(self) -> None:
        """Compute the rows of all phrases anew."""
        self.network.eval()
        self.table = encode_all(self.network, self.pairs.phrases, rows=True).float()
        self.network.train()

    # --- held-out pairs --------------------------------------------------------------------------

    @torch.no_grad()
    def judge(self, *, num_passages: int = 20_000) -> dict[str, float]:
        """Return RR@10 of held-out queries among their own and other passages."""
        pairs, held = self.pairs, self.pairs.held_out
        field = held_out_field(pairs, num_passages)
        identifiers = field.identifiers
        self.refresh()
        self.network.eval()
        bags = self.bags(identifiers)
        found: dict[str, list[Tensor]] = {}
        for some, spot in zip(held.split(100), field.place.split(100), strict=True):
            with torch.autocast(held.device.type, dtype=torch.bfloat16, enabled=held.is_cuda):
                vectors = self.network(pairs.queries.batch(some))
            unit = functional.normalize(vectors.pooled, dim=1)
            sheets = {"bag_cos": unit @ bags.T, "bag_max": self.by_words(vectors, identifiers)}
            sheets["ordered"] = self.ordered(vectors.slots, identifiers)
            sheets["vectors"] = self.teacher.cosines(some, identifiers)
            sheets["teacher"] = self._mixed(some, identifiers) / self.mix[0]
            for name, sheet in sheets.items():
                heats = (0.5, 1.0, 2.0) if name != "ordered" else ()
                ways = field.ways(sheet, heats=heats)
                for way, final in ((f"{name} {way}", own) for way, own in ways.items()):
                    rank = 1 + (final > final.gather(1, spot[:, None])).sum(1)
                    found.setdefault(way, []).append(torch.where(rank <= 10, 1.0 / rank, 0.0))
        self.network.train()
        return {name: float(torch.cat(each).mean()) for name, each in found.items()}

    def bags(self, identifiers: Tensor) -> Tensor:
        """Return unit bags of identifiers by the table's rows."""
        found = []
        for some in identifiers.split(8_192):
            ids = self.pairs.identifiers.ids[some].long()
            share = self.weights[ids.clamp_min(0)] * (ids >= 0)
            found.append(torch.einsum("ild,il->id", self.table[ids.clamp_min(0)], share))
        return functional.normalize(torch.cat(found), dim=1)

    def by_words(self, vectors: PixarVectors, identifiers: Tensor) -> Tensor:
        """Score identifiers by x₀ and by the best word for each phrase."""
        unit = functional.normalize(vectors.pooled, dim=1)
        gains = unit @ self.table.T + match_words(vectors.words, self.table)
        gains = (gains * self.weights).T.contiguous()  # (V, B)
        found = []
        for some in identifiers.split(8_192):
            ids = self.pairs.identifiers.ids[some].long()
            share = (ids >= 0).float()
            sums = torch.einsum("ilb,il->ib", gains[ids.clamp_min(0)], share)
            weighed = self.weights[ids.clamp_min(0)] * share
            norms = torch.einsum("ild,il->id", self.table[ids.clamp_min(0)], weighed).norm(dim=1)
            found.append((sums / norms[:, None]).T)
        return torch.cat(found, 1)

    def ordered(self, slots: Tensor, identifiers: Tensor) -> Tensor:
        """Return mean scores over slots."""
        kind = torch.bfloat16 if slots.is_cuda else torch.float32
        asked, found = slots.flatten(1).to(kind), []
        for some in identifiers.split(8_192):
            ids = self.pairs.identifiers.ids[some, :SLOTS].long()
            is_there = ids >= 0
            rows = (self.table[ids.clamp_min(0)] * is_there[..., None]).flatten(1).to(kind)
            biases = (self.bias[ids.clamp_min(0)] * is_there).sum(1)
            found.append(((asked @ rows.T).float() + biases) / is_there.sum(1))
        return torch.cat(found, 1)

    def _mixed(self, some: Tensor, identifiers: Tensor) -> Tensor:
        found = [self._wanted(some, each) for each in identifiers.split(8_192)]
        return torch.cat(found, 1)

    @torch.no_grad()
    def choose_mix(self) -> dict[str, float]:
        """Take the mix of cosines and BM25 that finds held-out pairs best in batches."""
        pairs, held = self.pairs, self.pairs.held_out[:500]
        passages, place = pairs.passage_of[held].unique(return_inverse=True)
        near = self.near[passages].flatten()
        passages = torch.cat((passages, near[~torch.isin(near, passages)].unique()))
        identifiers, owner = self.batches.draw_identifiers(passages, 12)
        cosines = self.teacher.cosines(held, identifiers)
        words = torch.cat([self.teacher.bm25(held, x) for x in identifiers.split(4_096)], 1)
        found = {}
        for share in (0.0, 0.1, 0.2, 0.3, 0.5, 0.8):
            mixed = 20.0 * cosines + share * words
            lost = compete(mixed, owner, place, count=len(passages), mean_share=self.own.mean_share)
            found[share] = -float(lost)
        best = max(found, key=lambda each: found[each])
        self.mix = (20.0, best)
        return {str(share): round(value, 4) for share, value in found.items()}


def special_ids(inputs: PixarInputs) -> list[int]:
    """Return the ids of the opening, the end and padding."""
    opening, end = inputs.queries([""])[0]
    return [opening, end, inputs.pad_id]


def start(encoder: Path, device: torch.device, *, seed: int) -> tuple[PixarNetwork, PixarInputs]:
    """Join the encoder with fresh slots; its table of words stays as it is."""
    inputs = PixarInputs(load_tokenizer(encoder), CONFIG)
    torch.manual_seed(seed)
    network = build_network(load_encoder(encoder), CONFIG, slot_id=inputs.mask_id).to(device)
    for name, parameter in network.named_parameters():
        if name == WORDS:
            parameter.requires_grad_(False)
    return network, inputs


def restore(network: PixarNetwork, weights: Path) -> None:
    """Put saved tensors into a network; what they lack stays as it is."""
    found = dequantise(load_file(weights))
    missing, unknown = network.load_state_dict(found, strict=False)
    assert not unknown, unknown
    print(f"{len(found)} tensors, not given: {missing}", flush=True)


def train(trainer: Trainer, *, seconds: float, most_steps: int, log: list[Any]) -> int:
    """Train for about so long; the number of steps follows from the first ones."""
    network, own = trainer.network, trainer.own
    encoder = [
        p for n, p in network.named_parameters() if n.startswith("encoder.") and p.requires_grad
    ]
    others = [p for n, p in network.named_parameters() if not n.startswith("encoder.")]
    optimiser = torch.optim.AdamW(
        [
            {"params": encoder, "peak": own.encoder_rate},
            {"params": others, "peak": own.rate},
            {"params": [trainer.log_scale], "peak": 1e-3},
        ],
        lr=1e-5,
        weight_decay=0.01,
    )
    network.train()
    total, begin, step = most_steps, time.perf_counter(), 0
    while step < total:
        if step % own.refresh == 0:
            trainer.refresh()
        share = min(1.0, (step + 1) / 100) * (
            0.5 + 0.5 * math.cos(math.pi * step / max(total, 200))
        )
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * max(share, 0.01)
        loss, terms = trainer.losses(step, total)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_([*encoder, *others], 1.0)
        optimiser.step()
        step += 1
        if step == 20:
            mark = time.perf_counter()
        if step == 60:
            speed = 40 / (time.perf_counter() - mark)
            left = seconds - (time.perf_counter() - begin)
            total = min(most_steps, 60 + int(0.97 * left * speed))
            print(f"{speed:.1f} steps per second, {total} steps", flush=True)
        if step % 100 == 0 or step == total:
            taken = time.perf_counter() - begin
            log.append([step, round(taken, 1), float(loss.detach()), *(round(t, 4) for t in terms)])
            print(log[-1], float(trainer.log_scale.detach().exp()), flush=True)
        if step % 1000 == 0 and step < total:
            print(step, trainer.judge(), flush=True)
        if time.perf_counter() - begin > 1.15 * seconds:
            break
    network.eval()
    return step


def save(network: PixarNetwork, path: Path) -> None:
    """Write every tensor but the encoder's table of words, as they are shipped: in int8."""
    tensors = {
        name: tensor.detach().float().cpu().contiguous()
        for name, tensor in network.state_dict().items()
        if name != WORDS and "pooler" not in name and tensor.is_floating_point()
    }
    save_file(quantise(tensors, dtype="int8"), path)


def main() -> None:
    """Train, judge by held-out pairs, save; then search collections, where some are given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packed", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--steps", type=int, default=100_000, help="most steps")
    parser.add_argument("--pairs", type=int, default=0, help="most pairs, for a trial")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="weights of an earlier run")
    parser.add_argument("--settings", default="{}", help="other settings than these, as JSON")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    begin = time.perf_counter()
    network, inputs = start(given.encoder, device, seed=given.seed)
    pairs = read_pairs(given.packed, inputs, device, most=given.pairs)
    print(f"read after {time.perf_counter() - begin:.1f} s", flush=True)
    own = Settings(batch=given.batch, seed=given.seed, **json.loads(given.settings))
    trainer = Trainer(network, pairs, own, inputs)
    mixes = trainer.choose_mix()
    print(f"teacher after {time.perf_counter() - begin:.1f} s: {mixes}", flush=True)
    if given.start is not None:
        restore(network, given.start)
    before = trainer.judge()
    print("before", before, flush=True)
    log: list[Any] = []
    begun = time.perf_counter()
    steps = train(trainer, seconds=given.seconds, most_steps=given.steps, log=log)
    taken = time.perf_counter() - begun
    save(network, given.out / "pixar.safetensors")
    after = trainer.judge()
    print("after", after, flush=True)
    content = {
        "pairs": len(pairs.training),
        "held_out": len(pairs.held_out),
        "passages": len(pairs.starts) - 1,
        "identifiers": len(pairs.identifiers.ids),
        "phrases": len(pairs.uses),
        "pairs_by_source": dict(
            zip(
                pairs.source_names,
                np.bincount(pairs.sources.cpu(), minlength=len(pairs.source_names)).tolist(),
                strict=True,
            )
        ),
        "settings": vars(own),
        "mixes": mixes,
        "mix": trainer.mix,
        "scale": float(trainer.log_scale.detach().exp()),
        "steps": steps,
        "seconds": round(taken, 1),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "before": before,
        "after": after,
        "log": log,
    }
    (given.out / "train.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
