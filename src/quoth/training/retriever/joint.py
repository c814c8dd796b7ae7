"""What RUMBArt and ACROBArT share: a query is rebuilt from the passages found for it alone.

Per step: encode the queries, let the stale index pick neighbours, encode these afresh with the
retriever (gradient) and with the query generator (each distinct passage once), score, and hand all
of it to the recipe's own loss. A share of the contrastive loss of the warm-up is kept against
collapse. The query generator never sees the query as input, so it cannot copy it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    NonNegative,
    OneOf,
    Positive,
    Range,
    Seed,
    Share,
    ShareBelowOne,
)
from quoth.models.glow.config import Projection
from quoth.models.glow.network import GlowNetwork, TokenBatch
from quoth.models.query_generator.network import QueryGeneratorNetwork, TextBatch
from quoth.training.loop import seeded
from quoth.training.loop_config import LoopConfig
from quoth.training.retriever.contrast import compare_in_batch
from quoth.training.retriever.learning import Learned, LearningModule, LearningRun, learn
from quoth.training.retriever.monitors import Monitor
from quoth.training.retriever.negatives import chance_from
from quoth.training.retriever.neighbourhood import (
    EXPLORATIONS,
    Distinct,
    explore,
    find_neighbours,
    score_neighbours,
)
from quoth.training.retriever.passage_set import PassageSet, as_text
from quoth.training.retriever.refresh import PassageIndex, RefreshConfig, Refresher
from quoth.training.retriever.retriever import (
    LayerRetriever,
    Retriever,
    prepare_network,
    vector_width,
)
from quoth.training.retriever.similarity import SIMILARITIES

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JointRecipe(CheckedConfig, title="joint recipe"):
    """Settings of retrieving and rebuilding together; the defaults worked in our trials."""

    similarity: Annotated[str, OneOf(*SIMILARITIES)] = "cosine"
    """How vectors are compared: cosine, dot (the thesis), or l2; only cosine can be installed."""

    projection: Projection = 0
    """Length of the vectors, 64 to 768, by linear maps of queries and documents; 0: no map."""

    k: Annotated[int, Range(2)] = 8
    """Neighbours of a query, exploration passages among them; the thesis takes 5."""

    score_scale: Positive = 20.0
    """Factor of the scores in p(z|x); 1 is the thesis' plain softmax of dot products."""

    explore: AtLeastZero = 0
    """How many of the neighbours are exploration passages."""

    exploration: Annotated[str, OneOf(*EXPLORATIONS)] = "bm25"
    """Where these come from: bm25 (its best that the index misses), or random."""

    reconstruction: NonNegative = 1.0
    """Weight of the rebuilding loss; 0 is the control that spends the same steps on contrast."""

    contrastive: NonNegative = 0.3
    """Weight of the warm-up's loss, kept against collapse; 0 is the thesis."""

    contrastive_scale: Positive = 20.0
    """Factor of the scores in it."""

    train_query_generator: bool = True
    """Train the query generator too."""

    steps: AtLeastOne = 300
    """Steps of the optimiser."""

    batch_size: Annotated[int, Range(2)] = 32
    """Queries per batch; each brings k passages."""

    accumulate: AtLeastOne = 1
    """Batches per step."""

    learning_rate: Positive = 2e-5
    """Highest learning rate of the retriever."""

    query_generator_learning_rate: Positive = 2e-5
    """Highest learning rate of the query generator."""

    refresh_every: AtLeastZero = 100
    """Steps after which the index is made anew; 0 leaves that to the overlap."""

    refresh_overlap: Share = 0.0
    """Overlap below which the index is made anew; 0 never asks, the thesis' digest says 0.7."""

    dropout: ShareBelowOne = 0.1
    """Share of the retriever's states dropped while training."""

    validate_every: AtLeastZero = 50
    """Steps between two validations, where there is something to validate with."""

    patience: AtLeastZero = 3
    """Validations without improvement after which training stops; 0 never stops early."""

    checkpoint_every: AtLeastZero = 50
    """Steps between two checkpoints, where a folder for them is given; 0 writes none."""

    watch_every: AtLeastOne = 10
    """Steps between two looks at whether the query generator uses what it reads."""

    seed: Seed = 0
    """Decides the order of queries, the dropout and the exploration."""

    def conflicts(self) -> Iterator[str]:
        """Say where there is nothing to learn, or nothing to learn from."""
        if self.explore >= self.k:
            yield f"explore is {self.explore}, expected less than k ({self.k})"
        if self.reconstruction + self.contrastive == 0:
            yield "reconstruction and contrastive are both 0: there is nothing to learn"
        if not self.refresh_every and not self.refresh_overlap:
            yield "refresh_every and refresh_overlap are both 0: the index never changes"

    def loop(self) -> LoopConfig:
        """Return the loop's part of the settings."""
        return LoopConfig(
            steps=self.steps,
            learning_rate=self.learning_rate,
            learning_rates={"query_generator.": self.query_generator_learning_rate},
            accumulate=self.accumulate,
            report_every=20,
            validate_every=self.validate_every,
            patience=self.patience,
            checkpoint_every=self.checkpoint_every,
        )

    def refresh(self) -> RefreshConfig:
        """Return the index's part of the settings."""
        return RefreshConfig(every=self.refresh_every, min_overlap=self.refresh_overlap)


class Reading(NamedTuple):
    """What the queries of a step are rebuilt from."""

    targets: TextBatch  # (B, L)
    scores: Tensor  # (B, K) with gradient to the retriever
    log_prior: Tensor  # (B, K)
    states: Tensor  # (U, T, D) of the distinct passages
    mask: Tensor  # (U, T)
    places: Tensor  # (B, K) in the distinct passages


class JointModule(LearningModule):
    """A retriever and a query generator; a recipe adds how queries are rebuilt."""

    num_calls: Tensor  # a buffer, so that a resumed run watches at the same steps

    def __init__(
        self,
        retriever: Retriever | LayerRetriever,
        query_generator: QueryGeneratorNetwork,
        passage_set: PassageSet,
        recipe: JointRecipe,
        *,
        index: PassageIndex,
    ) -> None:
        super().__init__(retriever, index=index)
        self.query_generator = query_generator
        self._passages = passage_set
        self._recipe = recipe
        self.register_buffer("num_calls", torch.zeros((), dtype=torch.long))
        if not recipe.train_query_generator:
            query_generator.requires_grad_(False)

    def forward(self, rows: Rows, *, generator: torch.Generator) -> Tensor:
        """Return the loss of the queries of some rows."""
        recipe = self._recipe
        queries = self.retriever.encode_queries(self._passages.query_batch(rows))
        positives = self._passages.positive_rows[rows]
        neighbours = self._neighbours(rows, queries, generator)
        wanted = np.concatenate((neighbours, positives[:, None]), axis=1)
        if not recipe.contrastive:
            wanted = neighbours
        if not recipe.reconstruction:
            wanted = positives[:, None]
        distinct = Distinct.of(wanted, queries.device)
        passages = self._passages.passage_batch(distinct.rows)
        vectors = self.retriever.encode_passages(passages)
        loss = torch.zeros((), device=queries.device)
        if recipe.contrastive:
            own = vectors[distinct.places[:, -1]]
            loss = loss + recipe.contrastive * compare_in_batch(
                queries,
                own,
                self._passages,
                rows,
                positives,
                scale=recipe.contrastive_scale,
                how=recipe.similarity,
            )
        if recipe.reconstruction:
            places = distinct.places[:, : recipe.k]
            reading = self._read(rows, queries, vectors, places, passages)
            loss = loss + recipe.reconstruction * self.rebuild(reading)
        self.num_calls += 1
        return loss

    def rebuild(self, reading: Reading) -> Tensor:
        """Return the loss of rebuilding the queries from what was found."""
        raise NotImplementedError

    def train(self, mode: bool = True) -> JointModule:
        """Switch dropout on or off; a frozen query generator never drops anything."""
        super().train(mode)
        if not self._recipe.train_query_generator:
            self.query_generator.eval()
        return self

    @property
    def watches(self) -> bool:
        """Whether this step looks at how the query generator uses what it reads."""
        return self.monitor is not None and int(self.num_calls) % self._recipe.watch_every == 0

    def _neighbours(self, rows: Rows, queries: Tensor, generator: torch.Generator) -> Rows:
        recipe = self._recipe
        assert self.index is not None
        found = find_neighbours(
            self.index, queries, self._passages, rows, k=recipe.k, similarity=recipe.similarity
        )
        if self.monitor is not None:
            self.monitor.note_neighbours(found)
        chance = chance_from(generator)
        return explore(
            found,
            self._passages,
            rows,
            count=recipe.explore,
            kind=recipe.exploration,
            chance=chance,
        )

    def _read(
        self, rows: Rows, queries: Tensor, vectors: Tensor, places: Tensor, passages: TokenBatch
    ) -> Reading:
        scores = score_neighbours(self.retriever, queries, vectors, places)
        log_prior = torch.log_softmax(self._recipe.score_scale * scores, dim=-1)
        with torch.set_grad_enabled(self._recipe.train_query_generator and torch.is_grad_enabled()):
            states = self.query_generator.encode(as_text(passages))
        targets = self._passages.query_targets(rows)
        return Reading(targets, scores, log_prior, states, passages.mask, places)


def learn_jointly(
    kind: type[JointModule],
    make_retriever: Callable[[QueryGeneratorNetwork], Retriever | LayerRetriever],
    query_generator: QueryGeneratorNetwork,
    passage_set: PassageSet,
    recipe: JointRecipe,
    run: LearningRun,
) -> Learned:
    """Train a retriever and a copy of a query generator together, as a recipe's module says."""
    with seeded(recipe.seed, run.device):
        writer = copy.deepcopy(query_generator).to(run.device)
        retriever = make_retriever(writer)
        here = passage_set.to(run.device)
        index = PassageIndex(here.num_passages, vector_width(retriever, run.device)).to(run.device)
        module = kind(retriever, writer, here, recipe, index=index).to(run.device)
        module.monitor = Monitor(run.bounds, num_passages=here.num_passages, k=recipe.k)
        return learn(
            module,
            here,
            run.loop or recipe.loop(),
            run,
            batch_size=recipe.batch_size,
            seed=recipe.seed,
            refresher=Refresher(index, retriever, here, recipe.refresh(), k=recipe.k),
            query_generator=writer,
        )


def copy_retriever(network: GlowNetwork, recipe: JointRecipe, device: torch.device) -> Retriever:
    """Make the retriever that is trained: a copy of a dual encoder."""
    own = prepare_network(
        network, projection=recipe.projection, dropout=recipe.dropout, device=device
    )
    return Retriever(own, similarity=recipe.similarity)
