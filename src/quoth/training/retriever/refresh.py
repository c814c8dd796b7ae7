"""The index of the encoder as it was a while ago, and when it is made anew.

While a retriever trains, its passages' vectors grow stale. The stale index only *picks* neighbours;
their scores are computed afresh with gradient. It is made anew every n steps, or when a sample of
queries shows that it would pick others by now. All is exact: products on the device, in chunks.

The index and the step it was made at are buffers, so a checkpoint holds them and a resumed run goes
on with the very index it was interrupted with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, Share
from quoth.errors import ConfigError
from quoth.models.batching import batches_by_length
from quoth.models.glow.network import TokenBatch
from quoth.training.retriever.passage_set import NONE, PassageSet
from quoth.training.retriever.retriever import VectorMaker
from quoth.training.retriever.similarity import score_all
from quoth.training.sequences import SequenceTable

_QUERIES = 512  # per chunk of a search
_SUBWORDS = {"cuda": 1 << 17}  # per batch of encoding
_FEW_SUBWORDS = 1 << 13
_NEVER = -1
_WIDER = 4  # candidates looked at again, in multiples of k, to judge how stale the index is

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RefreshConfig(CheckedConfig, title="refresh"):
    """When the index is made anew."""

    every: AtLeastZero = 100
    """Steps after which the index is made anew; 0 leaves that to the overlap."""

    min_overlap: Share = 0.0
    """Make it anew when it shares less than this with what the encoder would find; 0 never asks."""

    check_every: AtLeastOne = 25
    """Steps between two looks at the overlap."""

    sample: AtLeastOne = 256
    """Queries looked at."""


class PassageIndex(nn.Module):
    """Vectors of all passages that can be found, as some earlier encoder made them."""

    vectors: Tensor  # (N, D)
    made_at: Tensor  # the step after which they were made

    def __init__(self, num_passages: int, width: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(num_passages, width))
        self.register_buffer("made_at", torch.tensor(_NEVER))

    def top_k(
        self,
        query_vectors: Tensor,  # (B, D)
        *,
        k: int,
        similarity: str,
        excluded: Rows | None = None,  # (B, E), NONE where there is nothing
    ) -> Tensor:  # (B, K)
        """Find the rows of the best passages, best first."""
        return top_k(query_vectors, self.vectors, k=k, similarity=similarity, excluded=excluded)


class Refresher:
    """Keeps an index within its bounds of staleness."""

    def __init__(
        self,
        index: PassageIndex,
        retriever: VectorMaker,
        passage_set: PassageSet,
        config: RefreshConfig,
        *,
        k: int,
    ) -> None:
        self._index = index
        self._retriever = retriever
        self._passages = passage_set
        self._config = config
        self._k = k
        rows = passage_set.training_rows
        self._sample = rows[
            np.linspace(0, len(rows) - 1, min(config.sample, len(rows))).astype(int)
        ]

    def before_step(self, step: int) -> float | None:
        """Make the index anew if it is time; then give the overlap of old and new (1 if first)."""
        since = step - 1 - int(self._index.made_at)
        is_first = int(self._index.made_at) == _NEVER
        is_due = bool(self._config.every) and since >= self._config.every
        if not (is_first or is_due or (since > 0 and self._is_stale(step))):
            return None
        stale = None if is_first else self._find()
        fresh = encode_passages(self._retriever, self._passages)
        self._index.vectors.copy_(fresh)
        self._index.made_at.fill_(step - 1)
        return 1.0 if stale is None else overlap(stale, self._find())

    def _is_stale(self, step: int) -> bool:
        """Score the old index's wider candidates afresh, and see whether others would be picked.

        This sees what moved within the candidates alone, at the price of a few passages per query.
        """
        config = self._config
        if not config.min_overlap or (step - 1) % config.check_every:
            return False
        wide = self._find(k=min(_WIDER * self._k, self._passages.num_passages))
        rows, places = np.unique(wide.cpu().numpy(), return_inverse=True)
        vectors = _encode_rows(self._passages.passages, rows, self._retriever.encode_passages)
        scores = score_all(self._queries(), vectors, similarity=self._retriever.similarity)
        own = torch.from_numpy(places.reshape(wide.shape)).to(scores.device)
        best = scores.gather(1, own).topk(self._k, dim=1).indices
        return overlap(wide[:, : self._k], wide.gather(1, best)) < config.min_overlap

    def _find(self, *, k: int | None = None) -> Tensor:
        return self._index.top_k(
            self._queries(), k=k or self._k, similarity=self._retriever.similarity
        )

    def _queries(self) -> Tensor:
        return encode_queries(self._retriever, self._passages, self._sample)


def encode_passages(
    retriever: VectorMaker, passage_set: PassageSet, rows: Rows | None = None
) -> Tensor:  # (N, D)
    """Encode some passages, or every one that can be found, without gradient."""
    chosen = np.arange(passage_set.num_passages) if rows is None else rows
    return _encode_rows(passage_set.passages, chosen, retriever.encode_passages)


def encode_queries(retriever: VectorMaker, passage_set: PassageSet, rows: Rows) -> Tensor:
    """Encode some queries, without gradient; (B, D)."""
    return _encode_rows(passage_set.queries, rows, retriever.encode_queries)


def top_k(
    query_vectors: Tensor,  # (B, D)
    vectors: Tensor,  # (N, D)
    *,
    k: int,
    similarity: str,
    excluded: Rows | None = None,  # (B, E), NONE where there is nothing
) -> Tensor:  # (B, K)
    """Find the rows of the best vectors exactly, best first.

    >>> queries, passages = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0], [1.0], [0.5]])
    >>> passages = torch.cat((passages, 1 - passages), dim=1)
    >>> top_k(queries, passages, k=2, similarity="dot", excluded=np.array([[1]])).tolist()
    [[2, 0]]
    """
    if k > len(vectors):
        raise ConfigError(f"k is {k}, but there are only {len(vectors)} passages; lower k")
    found = []
    for at in range(0, len(query_vectors), _QUERIES):
        scores = score_all(query_vectors[at : at + _QUERIES], vectors, similarity=similarity)
        if excluded is not None:
            _forbid(scores, excluded[at : at + _QUERIES])
        found.append(scores.topk(k, dim=1).indices)
    return torch.cat(found)


def overlap(first: Tensor, second: Tensor) -> float:
    """Return the mean share of rows (B, K) that two results have in common.

    >>> overlap(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[2, 1], [3, 5]]))
    0.75
    """
    same = (first[:, :, None] == second[:, None, :]).any(-1)
    return float(same.float().mean())


def _forbid(scores: Tensor, excluded: Rows) -> None:
    """Lower the scores of excluded rows below all others, in place; NONE lowers nothing."""
    rows, columns = np.nonzero((excluded != NONE) & (excluded < scores.shape[1]))
    at = torch.from_numpy(rows).to(scores.device)
    scores[at, torch.from_numpy(excluded[rows, columns]).to(scores.device)] = float("-inf")


@torch.no_grad()
def _encode_rows(
    table: SequenceTable, rows: Rows, encode: Callable[[TokenBatch], Tensor]
) -> Tensor:  # (B, D)
    """Encode sequences of like length together, in bf16 on a GPU; give them in their order."""
    device = table.offsets.device
    budget = _SUBWORDS.get(device.type, _FEW_SUBWORDS)
    groups = batches_by_length(table.lengths[rows].tolist(), budget=budget)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        parts = [encode(table.batch(rows[group])) for group in groups]
    order = torch.tensor([at for group in groups for at in group], device=device)
    vectors = torch.cat(parts)
    return torch.empty_like(vectors).index_copy_(0, order, vectors)
