"""A small world to learn in: passages with words of their own, queries of two of these words.

Which passage a query is about is known here, but not to the recipes: they get pseudo-labels, of
which a share is wrong. `CopyGenerator` is a query generator that already knows what it should: a
query is likely where its words stand in the passage.
"""

from __future__ import annotations

import numpy as np
import torch
from tests.unit.training.training_worker import make_base
from torch import Tensor, nn

from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork, TextBatch
from quoth.training.retriever.passage_set import PassageSet, pad_rows
from quoth.training.sequences import SequenceTable

CLS, SEP = 2, 3
NUM_SUBWORDS = 100
COMMON = range(5, 10)


class World:
    """Passages, queries and the truth about them."""

    def __init__(self, *, num_passages: int = 30, per_passage: int = 6, wrong: float = 0.5) -> None:
        chance = np.random.default_rng(0)
        self.words = [10 + 3 * at + np.arange(3) for at in range(num_passages)]
        passages = [
            chance.permutation([*own, *chance.choice(COMMON, 3)]).tolist() for own in self.words
        ]
        self.truth = np.repeat(np.arange(num_passages), per_passage)
        queries = [
            [*chance.permutation(self.words[row])[:2].tolist(), int(chance.choice(COMMON))]
            for row in self.truth
        ]
        labels = [
            int(chance.integers(num_passages)) if chance.random() < wrong else int(row)
            for row in self.truth
        ]
        others = [chance.permutation(num_passages).tolist() for _ in self.truth]
        lexical = [
            [a, *(b for b in own if b != a)][:8] for a, own in zip(labels, others, strict=True)
        ]
        count = len(queries)
        self.passage_set = PassageSet(
            passages=table(passages),
            num_passages=num_passages,
            document_rows=np.arange(num_passages),
            queries=table(queries),
            kinds=np.full(count, 4, dtype=np.uint8),
            source_rows=np.full(count, -1),
            positive_rows=np.array(labels),
            lexical_rows=pad_rows(lexical),
            excluded_rows=pad_rows([()] * count),
            negative_rows=pad_rows([own[-3:] for own in lexical]),
            is_held_out=np.arange(count) % per_passage == 0,
        )


def table(sequences: list[list[int]]) -> SequenceTable:
    """Join sequences, each between its special symbols."""
    whole = [[CLS, *each, SEP] for each in sequences]
    flat = np.array([each for own in whole for each in own], dtype=np.uint16)
    return SequenceTable.from_arrays(
        flat,
        np.concatenate(([0], np.cumsum([len(own) for own in whole]))),
        field_ids=np.zeros(len(flat), dtype=np.uint8),
        weights=None,
    )


def make_network(*, projection: int = 0, pooling: str = "mean") -> GlowNetwork:
    """A dual encoder of a tiny random BERT."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return GlowNetwork(
            make_base(), pooling=pooling, weighting="none", separate=False, projection=projection
        )


def make_writer(*, train_encoder: bool = False) -> QueryGeneratorNetwork:
    """The real query generator over a tiny random BERT."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return QueryGeneratorNetwork(
            make_base(),
            num_layers=2,
            max_query_subwords=16,
            start_id=CLS,
            train_encoder=train_encoder,
        )


class CopyGenerator(nn.Module):
    """Knows no grammar: log p(y_j | z) of the words of z, smoothed; nothing in it is trained."""

    num_decoder_layers, num_heads, train_encoder = 1, 1, False
    smoothing = 0.2

    def encode(self, passages: TextBatch) -> Tensor:
        return nn.functional.one_hot(passages.subword_ids, NUM_SUBWORDS).float()

    def decode(
        self, inputs: Tensor, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:
        shares = mask.float() if bias is None else bias[0, :, 0].exp() * mask
        counts = (states * shares[..., None]).sum(1) + self.smoothing
        log_probs = (counts / counts.sum(-1, keepdim=True)).log()
        return log_probs[:, None].expand(-1, inputs.shape[1], -1)

    def log_probs(
        self, targets: TextBatch, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:
        logits = self.decode(targets.subword_ids, states, mask, bias=bias)
        own = logits.gather(2, targets.subword_ids[..., None]).squeeze(-1)
        return own.masked_fill(~targets.mask, 0.0)
