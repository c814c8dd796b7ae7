"""Warm-up: a dual encoder learns from BM25's best passages (RUMBArt's first stage, Eq. 4.4).

The positive of a query is BM25's best passage, or its source with the stretch held out; the
negatives are the batch's, or one of the other types of the thesis' Table 6.1. Short on purpose: 62
to 100 steps did as well as 400 in our trials, and better on some collections, so validate on
held-out pseudo-queries and stop early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.constraints import (
    FREE,
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    OneOf,
    Positive,
    Seed,
    ShareBelowOne,
)
from quoth.models.glow.config import Projection
from quoth.models.glow.network import GlowNetwork
from quoth.training.loop import seeded
from quoth.training.loop_config import LoopConfig
from quoth.training.retriever.contrast import contrast_in_batch, one_of_n_loss
from quoth.training.retriever.learning import Learned, LearningModule, LearningRun, learn
from quoth.training.retriever.negatives import (
    LAYOUTS,
    NEGATIVES,
    chance_from,
    draw_negatives,
)
from quoth.training.retriever.neighbourhood import Distinct, find_neighbours
from quoth.training.retriever.passage_set import PassageSet
from quoth.training.retriever.refresh import PassageIndex, RefreshConfig, Refresher
from quoth.training.retriever.retriever import Retriever, prepare_network, vector_width
from quoth.training.retriever.similarity import SIMILARITIES, score_own

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WarmUpRecipe(CheckedConfig, title="warm-up"):
    """Settings that warm a retriever up."""

    similarity: Annotated[str, OneOf(*SIMILARITIES)] = "cosine"
    """How vectors are compared: cosine, dot (the thesis), or l2; only cosine can be installed."""

    projection: Projection = 0
    """Length of the vectors, 64 to 768, by linear maps of queries and documents; 0: no map."""

    layout: Annotated[str, OneOf(*LAYOUTS)] = "in_batch"
    """What a query is compared with: the whole batch (in_batch), or its own few (one_of_n)."""

    negatives: Annotated[str, OneOf(*NEGATIVES)] = "none"
    """Further negatives: none, random, bm25, labelled, retriever. In the layout in_batch one per
    query, shared by all; in one_of_n there must be some."""

    num_negatives: AtLeastOne = 5
    """Negatives of each query in the layout one_of_n."""

    steps: AtLeastOne = 100
    """Steps of the optimiser."""

    batch_size: AtLeastOne = 128
    """Queries per batch."""

    learning_rate: Positive = 2e-5
    """Highest learning rate; the thesis' 1e-4 is high for a pretrained encoder."""

    scale: Annotated[float, FREE] = 20.0
    """Factor of the scores; 1 for the thesis' plain dot products."""

    retriever_depth: AtLeastOne = 20
    """Passages that negatives of the type retriever are drawn from."""

    refresh_every: AtLeastZero = 100
    """Steps after which the index for these is made anew."""

    dropout: ShareBelowOne = 0.1
    """Share of states dropped while training."""

    validate_every: AtLeastZero = 20
    """Steps between two validations, where there is something to validate with."""

    patience: AtLeastZero = 3
    """Validations without improvement after which training stops; 0 never stops early."""

    checkpoint_every: AtLeastZero = 50
    """Steps between two checkpoints, where a folder for them is given; 0 writes none."""

    seed: Seed = 0
    """Decides the order of queries, the dropout and the drawn negatives."""

    def conflicts(self) -> Iterator[str]:
        """Say where queries would have nothing to be told apart from."""
        if self.layout == "one_of_n" and self.negatives == "none":
            yield "the layout one_of_n needs negatives: random, bm25, labelled, retriever"
        if self.layout == "in_batch" and self.batch_size < 2:
            yield f"batch_size is {self.batch_size}, expected at least 2, or there are no negatives"

    def loop(self) -> LoopConfig:
        """Return the loop's part of the settings."""
        return LoopConfig(
            steps=self.steps,
            learning_rate=self.learning_rate,
            report_every=20,
            validate_every=self.validate_every,
            patience=self.patience,
            checkpoint_every=self.checkpoint_every,
        )


class WarmUpPairs(LearningModule):
    """A retriever whose output is the contrastive loss."""

    def __init__(
        self,
        retriever: Retriever,
        passage_set: PassageSet,
        recipe: WarmUpRecipe,
        *,
        index: PassageIndex | None = None,
    ) -> None:
        super().__init__(retriever, index=index)
        self._passages = passage_set
        self._recipe = recipe

    def forward(self, rows: Rows, *, generator: torch.Generator) -> Tensor:
        """Return the loss of the queries of some rows."""
        recipe = self._recipe
        queries = self.retriever.encode_queries(self._passages.query_batch(rows))
        positives = self._passages.positive_rows[rows]
        extra = self._negatives(rows, queries, generator)  # (B, count)
        if recipe.layout == "in_batch":
            columns = np.concatenate((positives, extra.reshape(-1)))
            return contrast_in_batch(
                self.retriever, queries, self._passages, rows, columns, scale=recipe.scale
            )
        distinct = Distinct.of(np.concatenate((positives[:, None], extra), axis=1), queries.device)
        vectors = self.retriever.encode_passages(self._passages.passage_batch(distinct.rows))
        with torch.autocast(queries.device.type, enabled=False):
            own = vectors[distinct.places]
            scores = score_own(queries, own, similarity=self.retriever.similarity)
            return one_of_n_loss(scores, scale=recipe.scale)

    def _negatives(self, rows: Rows, queries: Tensor, generator: torch.Generator) -> Rows:
        recipe = self._recipe
        if recipe.negatives == "none":
            return np.zeros((len(rows), 0), dtype=np.int64)
        retrieved = None
        if self.index is not None:
            retrieved = find_neighbours(
                self.index,
                queries,
                self._passages,
                rows,
                k=min(recipe.retriever_depth, self._passages.num_passages),
                similarity=recipe.similarity,
            )
        return draw_negatives(
            self._passages,
            rows,
            kind=recipe.negatives,
            count=1 if recipe.layout == "in_batch" else recipe.num_negatives,
            chance=chance_from(generator),
            retrieved=retrieved,
        )


def train_warm_up(
    network: GlowNetwork, passage_set: PassageSet, recipe: WarmUpRecipe, run: LearningRun
) -> Learned:
    """Train a copy of a dual encoder on BM25's pseudo-labels."""
    with seeded(recipe.seed, run.device):
        own = prepare_network(
            network, projection=recipe.projection, dropout=recipe.dropout, device=run.device
        )
        retriever = Retriever(own, similarity=recipe.similarity)
        here = passage_set.to(run.device)
        index, refresher = None, None
        if recipe.negatives == "retriever":
            width = vector_width(retriever, run.device)
            index = PassageIndex(passage_set.num_passages, width).to(run.device)
            often = RefreshConfig(every=recipe.refresh_every)
            refresher = Refresher(index, retriever, here, often, k=1)
        return learn(
            WarmUpPairs(retriever, here, recipe, index=index),
            here,
            run.loop or recipe.loop(),
            run,
            batch_size=recipe.batch_size,
            seed=recipe.seed,
            refresher=refresher,
        )
