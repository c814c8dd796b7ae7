"""Labelled negatives of a training set: documents that a query should not find, beside its batch's.

In a training set they are pairs whose source is `NEGATIVE`; `take_negatives` sets them apart. For
each batch one negative of every query that has any is drawn, so that a long list of them costs no
more than a short one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.models.glow.network import TokenBatch
from quoth.training.retriever.training_set import TrainingSet

NEGATIVE = "negative"
"""Source of the pairs whose document the query should not find."""

Rows = NDArray[np.int64]


class NegativeBatch(NamedTuple):
    """Drawn negatives: the documents, their rows, and which query of the batch each is for."""

    documents: TokenBatch
    document_rows: Tensor  # (N,)
    query_at: Tensor  # (N,)


class HardNegatives:
    """The labelled negatives of a training set, by the row of their query."""

    def __init__(self, rows_by_query: Mapping[int, Rows]) -> None:
        self._rows_by_query = rows_by_query

    def draw(
        self, training_set: TrainingSet, rows: Rows, generator: torch.Generator
    ) -> NegativeBatch | None:
        """Draw one negative for every query of a batch that has any; None where none has."""
        chance = torch.rand(len(rows), generator=generator, device=generator.device).cpu().numpy()
        at, drawn = [], []
        for place, query in enumerate(training_set.query_rows[rows].tolist()):
            if query in self._rows_by_query:
                own = self._rows_by_query[query]
                at.append(place)
                drawn.append(int(own[min(len(own) - 1, int(chance[place] * len(own)))]))
        if not at:
            return None
        device = training_set.documents.offsets.device
        return NegativeBatch(
            training_set.documents.batch(np.array(drawn, dtype=np.int64)),
            torch.tensor(drawn, device=device),
            torch.tensor(at, device=device),
        )


def take_negatives(training_set: TrainingSet) -> tuple[TrainingSet, HardNegatives | None]:
    """Set labelled negatives apart from the pairs; None where there are none."""
    if NEGATIVE not in training_set.sources:
        return training_set, None
    is_negative = training_set.source_ids == training_set.sources.index(NEGATIVE)
    rows_by_query: dict[int, list[int]] = {}
    for query, document in zip(
        training_set.query_rows[is_negative].tolist(),
        training_set.document_rows[is_negative].tolist(),
        strict=True,
    ):
        rows_by_query.setdefault(query, []).append(document)
    pairs = replace(
        training_set,
        query_rows=training_set.query_rows[~is_negative],
        document_rows=training_set.document_rows[~is_negative],
        source_ids=training_set.source_ids[~is_negative],
    )
    return pairs, HardNegatives({query: np.array(own) for query, own in rows_by_query.items()})


def negative_mask(
    mask: Tensor,  # (B, B) True where a document of the batch is no negative of a query
    document_rows: Tensor,  # (B,)
    negatives: NegativeBatch,
) -> Tensor:  # (B, N)
    """Mark the drawn documents that are no negative of a query: its own document, or a like one's.

    >>> texts = TokenBatch(*[torch.empty(0)] * 4)
    >>> drawn = NegativeBatch(texts, torch.tensor([5, 8]), torch.tensor([0, 1]))
    >>> alike = torch.tensor([[True, True], [True, True]])  # both queries ask the same thing
    >>> negative_mask(alike, torch.tensor([7, 8]), drawn).tolist()
    [[False, True], [True, True]]
    """
    places = torch.arange(len(document_rows), device=mask.device)
    is_other = places[:, None] != negatives.query_at[None, :]
    is_own = document_rows[:, None] == negatives.document_rows[None, :]
    return is_own | (mask[:, negatives.query_at] & is_other)
