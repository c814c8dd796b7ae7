"""Judge a dual encoder on pairs it was not trained on.

Queries are held out, not passages: a search engine knows its documents, what it has not seen is
what will be asked. Every passage of the pairs is ranked, up to a limit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.models.batching import batches_by_length
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence
from quoth.models.glow.network import GlowNetwork, TokenBatch
from quoth.models.glow.weights import WordCounts

CUT = 10
MAX_QUERIES = 1000
MAX_PASSAGES = 10_000
_AT_ONCE = 256

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """MRR@10 and nDCG@10 over the held-out queries."""

    mrr: float
    ndcg: float


def hold_out_queries(queries: Sequence[str], *, share: float, seed: int) -> set[str]:
    """Choose which distinct queries are held out: a share of them, one at least, by the seed.

    >>> len(hold_out_queries(["a", "b", "c", "a"], share=0.1, seed=0))
    1
    >>> hold_out_queries(["a", "b"], share=0.0, seed=0)
    set()
    """
    distinct = sorted(set(queries))
    if share <= 0:
        return set()
    count = min(MAX_QUERIES, max(1, round(share * len(distinct))))
    return set(random.Random(seed).sample(distinct, count))


class HeldOut:
    """Held-out queries, the passages that are ranked for them, and which of these answer each."""

    def __init__(
        self,
        answers: Sequence[tuple[str, Fields]],
        others: Sequence[Fields],
        *,
        inputs: GlowInputs,
        counts: WordCounts | None,
        seed: int,
    ) -> None:
        """Take pairs of held-out queries with their passages, and all other passages."""
        own = list({_key(fields): fields for _query, fields in answers}.values())
        rest = list({_key(fields): fields for fields in [*own, *others]}.values())[len(own) :]
        room = max(0, MAX_PASSAGES - len(own))
        passages = [*own, *_draw(rest, room, seed=seed)]
        row_by_key = {_key(fields): row for row, fields in enumerate(passages)}
        rows_by_query: dict[str, set[int]] = {}
        for query, fields in answers:
            rows_by_query.setdefault(query, set()).add(row_by_key[_key(fields)])
        self.num_queries, self.num_passages = len(rows_by_query), len(passages)
        self._answers = [np.array(sorted(rows)) for rows in rows_by_query.values()]
        self._inputs = inputs
        self._queries = inputs.queries(list(rows_by_query), counts)
        self._passages = inputs.documents(passages, counts)

    @torch.inference_mode()
    def judge(self, network: GlowNetwork, device: torch.device) -> HeldOutScores:
        """Rank the passages for every query by cosine, and score the rankings."""
        was_training = network.training
        network.eval()
        queries = self._encode(self._queries, network.encode_queries, device)
        passages = self._encode(self._passages, network.encode_documents, device)
        network.train(was_training)
        ranks = []
        for at in range(0, len(queries), _AT_ONCE):
            cosines = queries[at : at + _AT_ONCE] @ passages.T
            order = cosines.argsort(dim=1, descending=True, stable=True)[:, :CUT].cpu().numpy()
            answers = self._answers[at : at + _AT_ONCE]
            ranks += [np.isin(own, good) for own, good in zip(order, answers, strict=True)]
        found = [
            score_ranking(own, len(good)) for own, good in zip(ranks, self._answers, strict=True)
        ]
        mrr, ndcg = (float(np.mean(column)) for column in zip(*found, strict=True))
        return HeldOutScores(mrr, ndcg)

    def _encode(
        self,
        sequences: Sequence[SubwordSequence],
        run: Callable[[TokenBatch], Tensor],
        device: torch.device,
    ) -> Tensor:
        lengths = [len(each.subword_ids) for each in sequences]
        parts, order = [], []
        for rows in batches_by_length(lengths):
            batch = self._inputs.pad([sequences[row] for row in rows]).to(device)
            parts.append(run(batch).float())
            order += rows
        back = torch.from_numpy(np.argsort(order, kind="stable")).to(device)
        return torch.cat(parts)[back]


def score_ranking(is_answer: NDArray[np.bool_], num_answers: int) -> tuple[float, float]:
    """Return the reciprocal rank of the first answer and the nDCG of a ranking, cut where it ends.

    >>> score_ranking(np.array([False, True]), 1) == (1 / 2, 1 / np.log2(3))
    True
    """
    if not is_answer.any():
        return 0.0, 0.0
    discounts = 1.0 / np.log2(np.arange(2, len(is_answer) + 2))
    best = discounts[: min(num_answers, len(discounts))].sum()
    return float(1.0 / (is_answer.argmax() + 1)), float(discounts[is_answer].sum() / best)


def _draw(items: Sequence[_T], count: int, *, seed: int) -> list[_T]:
    return list(items) if len(items) <= count else random.Random(seed).sample(list(items), count)


def _key(fields: Fields) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(sorted((name, tuple(texts)) for name, texts in fields.items()))
