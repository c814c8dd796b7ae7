"""Teach the reranker what a larger model says of passages, on a GPU, and judge what it learned.

    python3 -m benchmarks.reader.distil_gpu SCORED --out OUT [--factor 0.4] [--steps 1500]

SCORED holds what `benchmarks.reader.teach score` wrote. The teacher is the reader's own score plus
a factor times SmolLM2's log p(query | passage); low-rank differences of the reader's matrices (Hu
et al. 2022) learn to give that sum. Scores are compared as distributions over the passages of a
query, which looks at the best ones, and as distances from their mean, which keeps their scale and
the order of the rest. Four queries in a hundred are held out, and judged as readers are shipped:
rounded to int8 steps. Writes OUT/NAME, a reader, and OUT/NAME.json.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from benchmarks.on_gpu import read_on_gpu
from quoth.models.pretrained import find_shipped
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import Reader
from quoth.training.batching import Batches
from quoth.training.loop import Progress, seeded, set_dropout, train
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.fitted_reader import OpenReader, pad_pairs

HELD_OUT = 4  # of a hundred
START = "reader"
MAX_SUBWORDS = 192


@dataclass(frozen=True)
class DistilRecipe:
    """Settings of the training."""

    steps: int
    batch_size: int
    """Queries per step, each with all its passages."""
    learning_rate: float
    rank: int
    """Rank of what is added to each matrix."""
    distance_weight: float
    """Weight of the distances' loss beside that of the distributions."""
    seed: int
    dropout: float = 0.05


@dataclass(frozen=True)
class DistilExample:
    """A query, the passages found for it, and the teacher's score of each."""

    query: str
    passages: tuple[TitledText, ...]
    scores: tuple[float, ...]


def main() -> None:
    """Train, save and judge."""
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    recipe = DistilRecipe(
        steps=given.steps,
        batch_size=given.batch,
        learning_rate=given.rate,
        rank=given.rank,
        distance_weight=given.distance,
        seed=given.seed,
    )
    examples, held_out = read_examples(given.scored, given.factor)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = find_shipped(START)
    reader = OpenReader(start)
    began = time.perf_counter()

    def tell(told: Progress) -> None:
        seconds = time.perf_counter() - began
        print(f"{told.step}: loss {told.loss:.4f}, {seconds:.0f} s", flush=True)

    distil(reader, examples, recipe, device=device, progress=tell)
    seconds = time.perf_counter() - began
    folder = given.out / given.name
    reader.save(folder, share=1.0, seed=given.seed)
    read_on_gpu()
    report = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "recipe": asdict(recipe),
        "factor": given.factor,
        "examples": len(examples),
        "seconds": round(seconds, 1),
        "held_out": {
            "queries": len(held_out),
            "before": judge(START, held_out),
            "after": judge(str(folder), held_out),
        },
    }
    folder.with_name(f"{given.name}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["held_out"]), flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scored", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="reranker")
    parser.add_argument("--factor", type=float, default=0.4, help="of the log likelihood")
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--rank", type=int, default=24)
    parser.add_argument("--distance", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class LowRank(nn.Module):
    """Adds a product of two narrow matrices to a weight; at first it is zero."""

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, columns) / columns**0.5)
        self.up = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight with what is added."""
        return weight + self.up @ self.down


class Distillation(nn.Module):
    """What is trained: a network whose output is the loss of some examples."""

    def __init__(
        self, reader: OpenReader, examples: Sequence[DistilExample], distance_weight: float
    ) -> None:
        super().__init__()
        self.network = reader.network
        self._weight = distance_weight
        self._taught = [torch.tensor(each.scores) for each in examples]
        pairs = [(each.query, passage) for each in examples for passage in each.passages]
        queries, passages = zip(*pairs, strict=True)
        self._read = reader.inputs.pairs(queries, passages, most=MAX_SUBWORDS)
        self._ends = np.cumsum([len(each.passages) for each in examples])

    def forward(self, rows: Sequence[int]) -> Tensor:
        """Return the mean loss of these examples."""
        device = next(self.network.parameters()).device
        sizes = [len(self._taught[row]) for row in rows]
        flat = [
            at
            for row, size in zip(rows, sizes, strict=True)
            for at in range(self._ends[row] - size, self._ends[row])
        ]
        scores = self.network(pad_pairs([self._read[at] for at in flat], device)).relevance
        losses = [
            distillation_loss(own, self._taught[row].to(device), distance_weight=self._weight)
            for row, own in zip(rows, torch.split(scores, sizes), strict=True)
        ]
        return torch.stack(losses).mean()


def distillation_loss(scores: Tensor, taught: Tensor, *, distance_weight: float) -> Tensor:
    """Compare the scores of one query's passages with the teacher's.

    >>> taught = torch.tensor([7.0, 5.0])
    >>> same = distillation_loss(torch.tensor([3.0, 1.0]), taught, distance_weight=1.0)
    >>> other = distillation_loss(torch.tensor([1.0, 3.0]), taught, distance_weight=1.0)
    >>> abs(round(float(same), 4)), float(other) > 2
    (0.0, True)
    """
    given, wanted = torch.log_softmax(scores, 0), torch.log_softmax(taught, 0)
    divergence = functional.kl_div(given, wanted, reduction="sum", log_target=True)
    distances = functional.smooth_l1_loss(scores - scores.mean(), taught - taught.mean(), beta=2.0)
    return divergence + distance_weight * distances


def distil(
    reader: OpenReader,
    examples: Sequence[DistilExample],
    recipe: DistilRecipe,
    *,
    device: torch.device,
    progress: Callable[[Progress], None],
) -> None:
    """Train low-rank differences of a reader's matrices, and add them to it."""
    with seeded(recipe.seed, device):
        reader.network.requires_grad_(False)
        layers = reader.network.encoder.encoder.modules()  # type: ignore[union-attr]
        matrices = [each for each in layers if isinstance(each, nn.Linear)]
        for each in matrices:
            added = LowRank(*each.weight.shape, recipe.rank)
            parametrize.register_parametrization(each, "weight", added)
        module = Distillation(reader, examples, recipe.distance_weight).to(device)
        set_dropout(module, recipe.dropout)
        keys = np.unique([each.query for each in examples], return_inverse=True)[1]
        train(
            module,
            Batches(np.arange(len(examples)), keys, batch_size=recipe.batch_size, seed=recipe.seed),
            lambda model, rows, _strength: model(rows.tolist()),
            LoopConfig(steps=recipe.steps, learning_rate=recipe.learning_rate, report_every=20),
            generator=torch.Generator(device).manual_seed(recipe.seed),
            progress=progress,
        )
    for each in matrices:
        parametrize.remove_parametrizations(each, "weight", leave_parametrized=True)
    module.eval()


def read_examples(folder: Path, factor: float) -> tuple[list[DistilExample], list[DistilExample]]:
    """Read what was scored; gives examples to train on, and those held out."""
    examples: list[DistilExample] = []
    held_out: list[DistilExample] = []
    for path in sorted(folder.glob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            groups: list[dict[str, Any]] = json.load(stream)["groups"]
        for own in groups:
            scores = zip(own["reader"], own["likelihood"], strict=True)
            example = DistilExample(
                own["query"],
                tuple(TitledText(title, text) for title, text in own["passages"]),
                tuple(read + factor * likely for read, likely in scores),
            )
            number = int.from_bytes(hashlib.sha256(own["query"].encode()).digest()[:4], "big")
            (held_out if number % 100 < HELD_OUT else examples).append(example)
    return examples, held_out


def judge(name: str, examples: Sequence[DistilExample]) -> dict[str, float]:
    """Compare a reader with the teacher: the same best passage, likeness of scores, divergence."""
    reader = Reader.load(name)
    first, likeness, divergence = [], [], []
    for each in examples:
        read = reader.score([each.query] * len(each.passages), each.passages, most=MAX_SUBWORDS)
        own, taught = np.array(read), np.array(each.scores)
        first.append(own.argmax() == taught.argmax())
        if own.std() > 0 and taught.std() > 0:
            likeness.append(np.corrcoef(own, taught)[0, 1])
        given, wanted = _log_softmax(own), _log_softmax(taught)
        divergence.append((np.exp(wanted) * (wanted - given)).sum())
    found = {"same_first": first, "correlation": likeness, "divergence": divergence}
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def _log_softmax(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    shifted = scores - scores.max()
    return shifted - np.log(np.exp(shifted).sum())


if __name__ == "__main__":
    main()
