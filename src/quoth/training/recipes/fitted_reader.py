"""Fit a reader to one collection: which of the passages found is a pseudo-query about?

Listwise: the passage a query was written for against others that search found for it. What comes
out lies between the reader before and after, as with encoders (`curriculum.blend`): pseudo-queries
are not real ones, and half the way forgets less (`benchmarks/learn/after`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from quoth.constraints import AtLeastOne, CheckedConfig, Positive, PositiveShare, Seed
from quoth.models.pretrained import load_encoder, load_tokenizer
from quoth.models.quantised import dequantise, read_sealed
from quoth.models.reader.files import WEIGHTS_FILE, SavedReader, read_saved, save_reader
from quoth.models.reader.inputs import ReaderInputs, SubwordSequence, TitledText
from quoth.models.reader.network import ReaderNetwork, SequenceBatch
from quoth.training.batching import Batches
from quoth.training.loop import Progress, seeded, set_dropout, train
from quoth.training.loop_config import LoopConfig

_HEADS = ("places.", "relevance.")


@dataclass(frozen=True, slots=True)
class FitRecipe(CheckedConfig, title="fitted reader"):
    """Settings that fit a reader to a collection."""

    steps: AtLeastOne = 60
    """Steps of the optimiser."""

    batch_size: AtLeastOne = 16
    """Queries per step, each with all its passages."""

    learning_rate: Positive = 6e-5
    """Highest learning rate."""

    share: PositiveShare = 0.5
    """Share of what was learned in the weights that come out."""

    max_subwords: AtLeastOne = 192
    """Most subwords read of query, title and passage."""

    seed: Seed = 0
    """Decides the order of queries and the dropout."""


@dataclass(frozen=True, slots=True)
class FitExample:
    """A query and the passages found for it, the one it was written for first."""

    query: str
    passages: tuple[TitledText, ...]


class OpenReader:
    """A reader in full precision, to be trained and saved."""

    def __init__(self, folder: Path) -> None:
        self.saved: SavedReader = read_saved(folder)
        base = self.saved.encoder.find(folder)
        self.network = ReaderNetwork(load_encoder(base))
        self.inputs = ReaderInputs(load_tokenizer(base), self.saved.config)
        self._sealed = read_sealed(folder / WEIGHTS_FILE, sha256=self.saved.sha256)
        self._before = dequantise(self._sealed)
        self.network.load_state_dict(
            {_inner(name): each for name, each in self._before.items()}, strict=False
        )

    def save(self, folder: Path, *, share: float, seed: int = 0) -> None:
        """Write what lies between the reader before and after, at this share of the way.

        Weights are rounded as they were, at random by the seed: to the nearest step of int8, most
        of what little training changes would be gone.
        """
        now = self.network.cpu().state_dict()
        mixed = {
            name: torch.lerp(old, now[_inner(name)].float(), share).contiguous()
            for name, old in self._before.items()
        }
        save_reader(
            folder,
            mixed,
            self.saved.config,
            encoder=self.saved.encoder,
            dtype=self.saved.dtype,
            like=self._sealed,
            seed=seed,
        )


def _inner(name: str) -> str:
    """Name a tensor of a reader's file as its network does."""
    return name if name.startswith(_HEADS) else f"encoder.{name}"


class PassageLists(nn.Module):
    """What is trained: a network that scores the passages of each example."""

    def __init__(self, reader: OpenReader, examples: Sequence[FitExample], most: int) -> None:
        super().__init__()
        self.network = reader.network
        self.network.encoder.embeddings.word_embeddings.requires_grad_(False)  # type: ignore[union-attr]
        self._read = [
            reader.inputs.pairs([each.query] * len(each.passages), each.passages, most=most)
            for each in examples
        ]

    def forward(self, rows: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the scores of the passages of each row."""
        lists = [self._read[row] for row in rows]
        device = next(self.network.parameters()).device
        scores = self.network(pad_pairs([each for own in lists for each in own], device)).relevance
        return torch.split(scores, [len(own) for own in lists])


ListLoss = Callable[[Sequence[int], Sequence[Tensor]], Tensor]
"""The loss of some examples, by the scores of their passages."""


def own_passage_loss(_rows: Sequence[int], scores: Sequence[Tensor]) -> Tensor:
    """Return the mean of −log p(own passage | query) over the passages found."""
    return torch.stack([-torch.log_softmax(own, 0)[0] for own in scores]).mean()


def fit_reader(
    reader: OpenReader,
    examples: Sequence[FitExample],
    recipe: FitRecipe,
    *,
    device: torch.device,
    loss: ListLoss = own_passage_loss,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Train a reader in place."""
    with seeded(recipe.seed, device):
        lists = PassageLists(reader, examples, recipe.max_subwords).to(device)
        set_dropout(lists, 0.1)
        lists.train()
        keys = np.unique([each.query for each in examples], return_inverse=True)[1]
        train(
            lists,
            Batches(np.arange(len(examples)), keys, batch_size=recipe.batch_size, seed=recipe.seed),
            lambda model, rows, _strength: loss(rows.tolist(), model(rows.tolist())),
            LoopConfig(steps=recipe.steps, learning_rate=recipe.learning_rate, report_every=5),
            generator=torch.Generator(device).manual_seed(recipe.seed),
            progress=progress,
        )
    lists.eval()


def pad_pairs(sequences: Sequence[SubwordSequence], device: torch.device) -> SequenceBatch:
    """Pad queries with their passages to one length."""
    size = len(sequences), max(len(each.subword_ids) for each in sequences)
    ids, fields = np.zeros(size, np.int64), np.zeros(size, np.int64)
    mask = np.zeros(size, bool)
    for row, each in enumerate(sequences):
        length = len(each.subword_ids)
        ids[row, :length] = each.subword_ids
        fields[row, each.second : length] = 1
        mask[row, :length] = True
    return SequenceBatch(*(torch.from_numpy(array).to(device) for array in (ids, fields, mask)))
