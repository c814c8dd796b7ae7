"""What dynamic phrases are compared with: static phrases (MWT), and a datastore (kNN-LM).

MWT (Gee et al. 2023): the 10,000 most frequent pairs of words of the training texts become tokens
of their own, whose rows start as the mean of their subwords' and are trained with the language
model. Without pairs the same training gives the fine-tuned plain language model.

kNN-LM (Khandelwal et al. 2020): the final states over the retrieved documents, each with the
subword that follows it; the nearest to the present state vote by exp(-squared distance /
temperature), and the votes are interpolated with the language model. Distances are divided by the
width, so that one temperature fits models of different widths. Weight and temperature are the best
of a few for the perplexity of two references of *wikipedia*; the published weight of 0.25 is worse
with stores this small.

    python3 -m benchmarks.generation.baselines --base FOLDER --set TRAINING.bin --out OUT/mwt \\
        [--pairs 10000] [--steps 500]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.generation.decoding import LONGEST, Adjust, Offer
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.models.dynamic_lm.network import DynamicNetwork
from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.training.quoting.set import SubwordTable, open_dynamic_set

ROWS_FILE = "static_rows.safetensors"
MODEL_FOLDER = "model"
Pair = tuple[int, ...]


@dataclass(frozen=True)
class Datastore:
    """Final states over some documents, and the subword that follows each; one per text."""

    keys: Tensor  # (B, M, D)
    followers: Tensor  # (B, M), -1 where there is nothing
    neighbours: int = 256
    temperature: float = 0.3
    weight: float = 0.1

    def adjust(self) -> Adjust:
        """Return what interpolates the language model's scores with the votes of neighbours."""

        def change(states: Tensor, scores: Tensor) -> Tensor:
            distances = torch.cdist(states[:, None].float(), self.keys.float())[:, 0].square()
            distances = distances.masked_fill(self.followers < 0, torch.inf) / states.shape[1]
            nearest = distances.topk(min(self.neighbours, distances.shape[1]), largest=False)
            votes = (-nearest.values / self.temperature).softmax(1)
            by_subword = torch.zeros_like(scores)
            chosen = self.followers.gather(1, nearest.indices).clamp_min(0)
            by_subword.scatter_add_(1, chosen, votes)
            mixed = (1 - self.weight) * scores.softmax(1) + self.weight * by_subword
            return mixed.log().masked_fill(torch.isinf(scores), -torch.inf)

        return change


@torch.inference_mode()
def make_datastore(
    network: DynamicNetwork, texts: Sequence[Sequence[SubwordText]], *, device: torch.device
) -> Datastore:
    """Read the documents of each text of a batch."""
    stores = []
    for documents in texts:
        longest = max(len(each.subword_ids) for each in documents)
        ids = torch.full((len(documents), longest), -1)
        for at, each in enumerate(documents):
            ids[at, : len(each.subword_ids)] = torch.from_numpy(each.subword_ids)
        ids = ids.to(device)
        none = torch.zeros(0, network.phrase_width, device=device)
        embedded = network.embed(ids.clamp_min(0), phrase_vectors=none)
        states = network.states(embedded, mask=ids >= 0)[:, :-1]
        followed = ids[:, 1:] >= 0
        stores.append((states[followed], ids[:, 1:][followed]))
    most = max(len(followers) for _states, followers in stores)
    keys = torch.zeros(len(stores), most, network.width, device=device, dtype=stores[0][0].dtype)
    followers = torch.full((len(stores), most), -1, device=device)
    for at, (own, following) in enumerate(stores):
        keys[at, : len(own)] = own
        followers[at, : len(own)] = following
    return Datastore(keys, followers)


class StaticPhrases(nn.Module):
    """Rows of a fixed set of phrases, beside the subwords' tables."""

    def __init__(self, pairs: Sequence[Pair], vectors: Tensor) -> None:
        super().__init__()
        self.pairs = list(pairs)
        self.vectors = nn.Parameter(vectors)  # (C, D)
        padded = [[*pair, *[-1] * (LONGEST - len(pair))] for pair in pairs]
        self.subword_ids = torch.tensor(padded, device=vectors.device).view(-1, LONGEST)

    def offer(self, num_texts: int) -> Offer:
        """Offer all phrases to each text of a batch, without copying them."""
        return Offer(
            self.vectors.detach().expand(num_texts, -1, -1),
            self.subword_ids.expand(num_texts, -1, -1),
            (self.subword_ids >= 0).sum(1).expand(num_texts, -1),
            torch.full((num_texts,), len(self.pairs), device=self.vectors.device),
        )

    def save(self, folder: Path) -> None:
        """Write rows and phrases."""
        vectors = self.vectors.detach().cpu().half()
        save_file({"vectors": vectors, "pairs": self.subword_ids.cpu()}, folder / ROWS_FILE)


def open_static(folder: Path, *, device: torch.device, dtype: torch.dtype) -> StaticPhrases:
    """Read static phrases that were saved beside a model."""
    found = load_file(folder / ROWS_FILE)
    pairs = [tuple(int(i) for i in row if i >= 0) for row in found["pairs"]]
    return StaticPhrases(pairs, found["vectors"].to(device, dtype))


def frequent_pairs(texts: SubwordTable, *, size: int) -> list[Pair]:
    """List the most frequent pairs of neighbouring words as subwords, 2 to 8 of them.

    Equally frequent ones are in the order of their subwords. A mark between words counts as none.
    """
    counts: Counter[Pair] = Counter()
    for row in range(len(texts)):
        text = texts[row]
        bounds = np.append(np.flatnonzero(text.word_starts), len(text.subword_ids)).tolist()
        ids = text.subword_ids.tolist()
        counts.update(
            tuple(ids[start:end])
            for start, end in zip(bounds, bounds[2:], strict=False)
            if 2 <= end - start <= LONGEST
        )
    return sorted(counts, key=lambda pair: (-counts[pair], pair))[:size]


def merge_pairs(
    ids: Sequence[int], row_by_pair: dict[Pair, int], *, num_subwords: int
) -> list[int]:
    """Replace pairs from left to right by their tokens, the longest first.

    >>> merge_pairs([1, 2, 3, 2, 3], {(2, 3): 0, (1, 2): 1}, num_subwords=10)
    [11, 3, 10]
    """
    merged, at = [], 0
    while at < len(ids):
        for length in range(min(LONGEST, len(ids) - at), 1, -1):
            row = row_by_pair.get(tuple(ids[at : at + length]))
            if row is not None:
                merged.append(num_subwords + row)
                at += length
                break
        else:
            merged.append(ids[at])
            at += 1
    return merged


def start_static(network: DynamicNetwork, pairs: Sequence[Pair]) -> StaticPhrases:
    """Start each phrase's row as the mean of its subwords' rows."""
    none = next(network.parameters()).new_zeros(0, network.phrase_width)
    means = [
        network.embed(torch.tensor([pair], device=none.device), phrase_vectors=none)[0].mean(0)
        for pair in pairs
    ]
    return StaticPhrases(pairs, torch.stack(means).detach() if means else none)


def train_static(
    network: DynamicNetwork,
    static: StaticPhrases,
    sequences: Sequence[NDArray[np.int64]],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int = 0,
) -> list[float]:
    """Train language model and rows on texts with their pairs merged; gives the losses."""
    device = static.vectors.device
    row_by_pair = {pair: row for row, pair in enumerate(static.pairs)}
    trained = [p for p in network.language_model.parameters() if p.requires_grad]
    own = [static.vectors] if static.pairs else []
    optimizer = torch.optim.AdamW([*trained, *own], lr=learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.05 * steps + 1), 1 - step / (steps + 1))
    )
    losses = []
    network.train()
    for batch in _batches(len(sequences), steps, batch_size, np.random.default_rng(seed)):
        rows = [
            merge_pairs(sequences[at].tolist(), row_by_pair, num_subwords=network.num_subwords)
            for at in batch
        ]
        loss = _loss(network, static, rows, device)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([*trained, *own], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(float(loss.detach()))
    network.eval()
    return losses


def _loss(
    network: DynamicNetwork,
    static: StaticPhrases,
    rows: Sequence[Sequence[int]],
    device: torch.device,
) -> Tensor:
    """Cross entropy over subwords and static phrases together."""
    ids = torch.full((len(rows), max(map(len, rows))), -1)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = torch.tensor(row)
    ids = ids.to(device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        embedded = network.embed(ids.clamp_min(0), phrase_vectors=static.vectors)
        states = network.states(embedded, mask=ids >= 0)[:, :-1]
        followed = ids[:, 1:] >= 0
        states = states[followed]
        scores = network.subword_scores(states)
        if static.pairs:
            phrases = network.phrase_scores(states, static.vectors)
            scores = torch.cat([scores, phrases.to(scores.dtype)], dim=1)
    return functional.cross_entropy(scores.float(), ids[:, 1:][followed])


def _batches(
    count: int, steps: int, size: int, chance: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Draw batches: every text once before any comes again."""
    order = chance.permutation(count)
    for step in range(steps):
        yield order[np.arange(step * size, (step + 1) * size) % count]


def main() -> None:
    """Train one baseline and save it: the model's folder, and its rows where there are pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument(
        "--set", type=Path, required=True, help="what benchmarks.generation.pack wrote"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=10_000, help="0 for the plain language model")
    parser.add_argument("--tuning", default="lora", choices=("lora", "full"))
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=2e-4)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts = open_dynamic_set(given.set).texts
    config = DynamicLMConfig(tuning=given.tuning, template="plain")
    model = DynamicLM.start(given.base, config=config, device=device)
    pairs = frequent_pairs(texts, size=given.pairs) if given.pairs else []
    static = start_static(model.network, pairs)
    began = time.perf_counter()
    losses = train_static(
        model.network,
        static,
        [texts[row].subword_ids for row in range(len(texts))],
        steps=given.steps,
        batch_size=given.batch,
        learning_rate=given.rate,
    )
    given.out.mkdir(parents=True, exist_ok=True)
    model.save(given.out / MODEL_FOLDER)
    if pairs:
        static.save(given.out)
    seconds = round(time.perf_counter() - began, 1)
    tail = float(np.mean(losses[-20:]))
    print(json.dumps({"pairs": len(pairs), "seconds": seconds, "loss": tail}), flush=True)


if __name__ == "__main__":
    main()
