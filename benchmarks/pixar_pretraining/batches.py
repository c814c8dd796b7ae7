"""What a step of training reads: pairs, identifiers of their passages, and what asks for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.pixar_pretraining.data import Padded, Pairs
from quoth.models.pixar.network import QueryBatch

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


class Batches:
    """Pairs and identifiers, drawn at random."""

    def __init__(self, pairs: Pairs, near: Tensor, words: Padded) -> None:
        self.pairs = pairs
        self.near = near  # (passages, GROUP) other passages near each
        self.words = words  # subwords of each identifier
        self.device = pairs.starts.device
        first = torch.full((len(pairs.starts) - 1,), -1, device=self.device)
        first[pairs.passage_of[pairs.training]] = pairs.training
        self.first = first  # a training pair of each passage
        self.begin(Settings())

    def begin(self, own: Settings) -> None:
        """Draw from the beginning, by these settings."""
        self.own = own
        self.chance = torch.Generator(device=self.device).manual_seed(own.seed)

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

    def lend_sentences(
        self, asked: Tensor, place: Tensor, *, identifiers: Tensor, owner: Tensor
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
        other = self.words.batch(identifiers[first])
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

    def add_titles(self, ids: Tensor, identifiers: Tensor, *, passages: Tensor) -> Tensor:
        """Put the phrases of the title after those of sentences, half of the time."""
        pairs = self.pairs
        first = pairs.starts[passages]  # a title comes first
        chance = torch.rand(len(ids), generator=self.chance, device=self.device)
        is_titled = (
            pairs.is_title[first] & ~pairs.is_title[identifiers] & (chance < self.own.titled)
        )
        titles = torch.where(is_titled[:, None], pairs.identifiers.ids[first].long(), -1)
        return torch.cat((ids, titles), 1)

    def draw_some(self, count: int, most: int) -> Tensor:
        """Draw at most so many of `count` places, without repetition."""
        return torch.randperm(count, generator=self.chance, device=self.device)[:most]
