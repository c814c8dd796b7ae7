"""Train PIXAR across collections on a GPU, then search collections that it never saw.

    python3 -m benchmarks.pixar_pretraining.train --packed FOLDER --encoder FOLDER --out OUT
        --seconds 300 [--start EARLIER.safetensors]

A row of the head is the network's own vector of the phrase's text, times a learned length, so that
a phrase that was never trained has a valid row. Losses, over the identifiers of a batch's passages:

    bag       passages compete for a query by their identifiers' cosines c = s·cos(x₀, b):
              log Σ e^c + half the mean of c
    words     likewise, each phrase scored by x₀ and by the word of the query that knows it best
    teacher   KL to a mix of an untrained encoder's cosines and BM25, over single identifiers
    ordered   passages compete by the paper's own scores: mean over slots of x_t · w + bias
    paper     ℓ₁ + λ₂ ℓ₂ + λ₃ ℓ₃ over the whole vocabulary, its other rows refreshed now and then

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.pixar_pretraining.data import (
    SLOTS,
    Pairs,
    encode_all,
    find_neighbours,
    make_teacher,
    read_pairs,
)
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.files import build_network
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.network import PixarNetwork, PixarVectors, QueryBatch
from quoth.models.pretrained import load_encoder, load_tokenizer
from quoth.models.quantised import dequantise, quantise
from quoth.vocabulary.phrases.rarity import rarities

WORDS = "encoder.encoder.embeddings.word_embeddings.weight"
CONFIG = PixarConfig(num_slots=SLOTS, row_lengths=True, unit_rows=False, word_vectors=True)
GROUP = 8  # passages of a neighbourhood


@dataclass
class Settings:
    """What decides the outcome besides the pairs."""

    batch: int = 512
    each: int = 8
    scale: float = 20.0
    bag_share: float = 0.3
    sentences: float = 0.1
    mean_share: float = 0.5
    titled: float = 0.5
    teacher_share: float = 0.5
    ordered_share: float = 0.5
    ordered_scale: float = 3.0
    paper_share: float = 0.1
    encoder_rate: float = 1e-4
    rate: float = 4e-4
    neighbours: float = 0.5
    refresh: int = 150
    seed: int = 0


class Trainer:
    """The network, the pairs and the losses of a batch."""

    def __init__(self, network: PixarNetwork, pairs: Pairs, own: Settings, inputs: Any) -> None:
        self.network, self.pairs, self.own = network, pairs, own
        self.device = pairs.starts.device
        self.teacher = make_teacher(network, pairs, special_ids(inputs))
        self.near = find_neighbours(pairs, self.teacher, count=GROUP)
        uses = pairs.uses.cpu().numpy()
        self.weights = torch.from_numpy(rarities(uses)).to(self.device)
        self.bias = -self.weights
        self.log_scale = nn.Parameter(torch.tensor(math.log(own.scale), device=self.device))
        self.mix = (0.0, 0.0)
        self.table = torch.zeros(len(uses), network.width, device=self.device)
        self.chance = torch.Generator(device=self.device).manual_seed(own.seed)
        first = torch.full((len(pairs.starts) - 1,), -1, device=self.device)
        first[pairs.passage_of[pairs.training]] = pairs.training
        self.first = first  # a training pair of each passage

    # --- batches ---------------------------------------------------------------------------------

    def draw(self) -> Tensor:
        """Draw pairs, half of the time from neighbourhoods."""
        own, training = self.own, self.pairs.training
        if torch.rand((), generator=self.chance, device=self.device) >= own.neighbours:
            at = torch.randint(
                len(training), (own.batch,), generator=self.chance, device=self.device
            )
            return training[at]
        count = own.batch // GROUP
        at = torch.randint(len(training), (count,), generator=self.chance, device=self.device)
        near = self.near[self.pairs.passage_of[training[at]], : GROUP - 1]
        found = torch.cat((training[at][:, None], self.first[near]), 1).flatten()
        return found[found >= 0]

    def draw_identifiers(self, passages: Tensor, each: int) -> tuple[Tensor, Tensor]:
        """Draw identifiers of each passage: rows (I,) and the place of the passage of each."""
        starts, counts = self.pairs.starts[passages], self.pairs.starts.diff()[passages]
        noise = torch.rand(len(passages), 16, generator=self.chance, device=self.device)
        noise = noise.masked_fill(torch.arange(16, device=self.device) >= counts[:, None], 2.0)
        order = noise.argsort(1)[:, :each]
        is_there = torch.arange(each, device=self.device) < counts[:, None]
        rows = (starts[:, None] + order)[is_there]
        places = torch.arange(len(passages), device=self.device)[:, None].expand_as(is_there)
        return rows, places[is_there]

    # --- losses ----------------------------------------------------------------------------------

    def losses(self, step: int, total: int) -> tuple[Tensor, list[float]]:
        """Return the loss of one batch, and its terms."""
        own, pairs = self.own, self.pairs
        asked = self.draw()
        passages, place = pairs.passage_of[asked].unique(return_inverse=True)
        identifiers, owner = self.draw_identifiers(passages, own.each)
        queries, lent = self._lend_sentences(asked, place, identifiers, owner)
        ids = pairs.identifiers.ids[identifiers].long()
        is_there = ids >= 0
        titled = self._with_titles(ids, identifiers, passages[owner])
        distinct, spots = titled.clamp_min(0).unique(return_inverse=True)
        with torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
        ):
            vectors = self.network(queries)
            rows = self.network.row_vectors(pairs.phrases.batch(distinct))
        rows = rows.float()
        unit = functional.normalize(vectors.pooled, dim=1)
        sheet = self._membership(spots, titled >= 0, len(distinct)) * self.weights[distinct]
        norms = (sheet @ rows).norm(dim=1)  # (I,)
        scale = self.log_scale.exp().clamp(max=60.0)
        by_pooled = unit @ rows.T  # (B, V)
        scores = scale * (by_pooled @ sheet.T) / norms  # (B, I)
        by_word = (by_pooled + match_words(vectors.words, rows)) @ sheet.T
        best = scale * by_word / norms
        bag = self._compete(scores, owner, place, len(passages), lent=lent)
        words = self._compete(best, owner, place, len(passages), lent=lent)
        has_query = ~lent.any(1)
        taught = self._follow(best[has_query], asked[has_query], identifiers)
        ids, is_there = ids[:, :SLOTS], is_there[:, :SLOTS]
        found = rows[spots[:, :SLOTS]] * is_there[..., None]  # (I, S, D)
        lengths = is_there.sum(1)
        flat = found.flatten(1).to(torch.bfloat16 if self.device.type == "cuda" else torch.float32)
        slots = vectors.slots.flatten(1).to(flat.dtype)
        biases = (self.bias[ids.clamp_min(0)] * is_there).sum(1)
        means = ((slots @ flat.T).float() + biases) / lengths
        ordered = self._compete(own.ordered_scale * means, owner, place, len(passages), lent=lent)
        paper = self._paper(
            vectors, scores.masked_fill(lent, -1e4), owner, place, ids, rows, distinct, step / total
        )
        loss = (
            words
            + own.bag_share * bag
            + own.teacher_share * taught
            + own.ordered_share * ordered
            + own.paper_share * paper[0]
        )
        terms = (words, bag, taught, ordered)
        return loss, [float(x) for x in (*(each.detach() for each in terms), *paper[1])]

    def _lend_sentences(
        self, asked: Tensor, place: Tensor, identifiers: Tensor, owner: Tensor
    ) -> tuple[QueryBatch, Tensor]:  # (B, I) bool
        """Let sentences of some passages ask for them, and say which are then no identifiers."""
        chance = torch.rand(len(asked), generator=self.chance, device=self.device)
        lent = torch.zeros(len(asked), len(identifiers), dtype=torch.bool, device=self.device)
        first = torch.searchsorted(owner, place)  # owners ascend
        is_alone = torch.bincount(owner, minlength=int(place.max()) + 1)[place] < 2
        is_lent = (chance < self.own.sentences) & ~is_alone
        is_lent &= ~self.pairs.is_title[identifiers[first]]
        rows = torch.arange(len(asked), device=self.device)[is_lent]
        lent[rows, first[is_lent]] = True
        own = self.pairs.queries.batch(asked)
        other = self.teacher.words.batch(identifiers[first])
        width = max(own.mask.shape[1], other.mask.shape[1])
        padded = [
            [functional.pad(x, (0, width - x.shape[1])) for x in (each.subword_ids, each.mask)]
            for each in (own, other)
        ]
        ids, mask = (
            torch.where(is_lent[:, None], theirs, mine)
            for mine, theirs in zip(*padded, strict=True)
        )
        kept = int(mask.sum(1).max())
        return QueryBatch(ids[:, :kept], mask[:, :kept]), lent

    def _with_titles(self, ids: Tensor, identifiers: Tensor, passages: Tensor) -> Tensor:
        """Put the phrases of the title after those of sentences, half of the time."""
        pairs = self.pairs
        first = pairs.starts[passages]  # a title comes first
        chance = torch.rand(len(ids), generator=self.chance, device=self.device)
        is_titled = (
            pairs.is_title[first] & ~pairs.is_title[identifiers] & (chance < self.own.titled)
        )
        titles = torch.where(is_titled[:, None], pairs.identifiers.ids[first].long(), -1)
        return torch.cat((ids, titles), 1)

    def _membership(self, spots: Tensor, is_there: Tensor, count: int) -> Tensor:  # (I, V)
        """Count how often each phrase stands in each identifier."""
        sheet = torch.zeros(len(spots), count, device=self.device)
        return sheet.scatter_add_(1, spots, is_there.float())

    def _compete(
        self,
        scores: Tensor,
        owner: Tensor,
        place: Tensor,
        count: int,
        *,
        lent: Tensor | None = None,
    ) -> Tensor:
        """Let passages compete by their best identifiers, softly, and half the mean of all."""
        if lent is None:
            lent = torch.zeros_like(scores, dtype=torch.bool)
        legal = scores.masked_fill(lent, -1e4)
        top = legal.detach().amax(1, keepdim=True)
        empty = torch.zeros(len(scores), count, device=scores.device)
        logs = empty.index_add(1, owner, (legal - top).exp()).clamp_min(1e-30).log()
        counts = empty.index_add(1, owner, (~lent).float()).clamp_min(1.0)
        means = empty.index_add(1, owner, scores.masked_fill(lent, 0.0)) / counts
        return functional.cross_entropy(logs + self.own.mean_share * means, place)

    def _follow(self, scores: Tensor, asked: Tensor, identifiers: Tensor) -> Tensor:
        with torch.no_grad():
            vectors, words = self.mix
            wanted = vectors * self.teacher.cosines(asked, identifiers)
            wanted = (wanted + words * self.teacher.bm25(asked, identifiers)).log_softmax(1)
        found = scores.log_softmax(1)
        return (wanted.exp() * (wanted - found)).sum(1).mean()

    def _paper(
        self,
        vectors: Any,
        scores: Tensor,
        owner: Tensor,
        place: Tensor,
        ids: Tensor,
        rows: Tensor,
        distinct: Tensor,
        done: float,
    ) -> tuple[Tensor, list[Tensor]]:
        """Teach each query its passage's best identifier by the paper's losses."""
        own = scores.detach().masked_fill(owner[None] != place[:, None], -torch.inf)
        half = torch.randperm(len(scores), generator=self.chance, device=self.device)[:128]
        target = ids[own[half].argmax(1)]  # (128, L)
        is_there = target >= 0
        table = self.table.index_copy(0, distinct, rows)
        kind = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        slots = vectors.slots[half][is_there]  # (targets, D)
        logits = (slots.to(kind) @ table.T.to(kind)).float() + self.bias
        normalisers = logits.logsumexp(1)
        wanted = target[is_there]
        first = (normalisers - logits.gather(1, wanted[:, None])[:, 0]).mean()
        pooled = (vectors.pooled[half].to(kind) @ table.T.to(kind)).float() + self.bias
        known = pooled.logsumexp(1, keepdim=True) - pooled.gather(1, target.clamp_min(0))
        second = (known * is_there).sum() / is_there.sum()
        third = normalisers.square().mean()
        ramp = min(1.0, 5 * done)
        return first + 0.25 * second + ramp * third, [
            first.detach(),
            second.detach(),
            third.detach(),
        ]

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
        own = pairs.passage_of[held].unique()
        chance = torch.Generator().manual_seed(1)
        others = torch.randperm(len(pairs.starts) - 1, generator=chance)[:num_passages]
        passages = torch.cat((own, others.to(own.device))).unique()
        place = torch.searchsorted(passages, pairs.passage_of[held])
        counts = pairs.starts.diff()[passages]
        owner = torch.repeat_interleave(torch.arange(len(passages), device=own.device), counts)
        within = torch.arange(len(owner), device=own.device) - (counts.cumsum(0) - counts)[owner]
        identifiers = pairs.starts[passages][owner] + within
        self.refresh()
        self.network.eval()
        bags = self.bags(identifiers)
        found: dict[str, list[Tensor]] = {}
        for some, spot in zip(held.split(100), place.split(100), strict=True):
            with torch.autocast(own.device.type, dtype=torch.bfloat16, enabled=own.is_cuda):
                vectors = self.network(pairs.queries.batch(some))
            unit = functional.normalize(vectors.pooled, dim=1)
            sheets = {"bag_cos": unit @ bags.T, "bag_max": self.by_words(vectors, identifiers)}
            sheets["ordered"] = self.ordered(vectors.slots, identifiers)
            sheets["vectors"] = self.teacher.cosines(some, identifiers)
            sheets["teacher"] = self._mixed(some, identifiers) / self.mix[0]
            for name, sheet in sheets.items():
                best = torch.full((len(some), len(passages)), -1e9, device=own.device)
                best = best.index_reduce(1, owner, sheet, "amax")
                mean = torch.zeros_like(best).index_add(1, owner, sheet) / counts
                ways = {"max": best, "max+mean": best + mean, "max+mean/2": best + mean / 2}
                for heat in (0.5, 1.0, 2.0) if name != "ordered" else ():
                    scale = 20.0 / heat
                    shifted = (scale * (sheet - best.amax(1, keepdim=True))).exp()
                    sums = torch.zeros_like(best).index_add(1, owner, shifted)
                    ways[f"logsumexp {heat}"] = sums.clamp_min(1e-30).log()
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
        vectors, words = self.mix
        found = [
            vectors * self.teacher.cosines(some, each) + words * self.teacher.bm25(some, each)
            for each in identifiers.split(8_192)
        ]
        return torch.cat(found, 1)

    @torch.no_grad()
    def choose_mix(self) -> dict[str, float]:
        """Take the mix of cosines and BM25 that finds held-out pairs best in batches."""
        pairs, held = self.pairs, self.pairs.held_out[:500]
        passages, place = pairs.passage_of[held].unique(return_inverse=True)
        near = self.near[passages].flatten()
        passages = torch.cat((passages, near[~torch.isin(near, passages)].unique()))
        identifiers, owner = self.draw_identifiers(passages, 12)
        cosines = self.teacher.cosines(held, identifiers)
        words = torch.cat([self.teacher.bm25(held, x) for x in identifiers.split(4_096)], 1)
        found = {}
        for share in (0.0, 0.1, 0.2, 0.3, 0.5, 0.8):
            mixed = 20.0 * cosines + share * words
            found[share] = -float(self._compete(mixed, owner, place, len(passages)))
        best = max(found, key=lambda each: found[each])
        self.mix = (20.0, best)
        return {str(share): round(value, 4) for share, value in found.items()}


def match_words(words: Tensor | None, rows: Tensor, *, at_once: int = 64) -> Tensor:  # (B, V)
    """Score phrases by the word of the query that knows each best, if any does at all."""
    assert words is not None
    kind = torch.bfloat16 if rows.is_cuda else torch.float32
    table = rows.to(kind).T
    found = [(some.to(kind) @ table).amax(1) for some in words.split(at_once)]
    return torch.cat(found).float().clamp_min(0.0)


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
