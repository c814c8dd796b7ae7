"""Warm one model up as retriever and query generator at once, and two models (Figure 6.2).

    python3 -m benchmarks.learn.single --encoder FOLDER --generator FOLDER --out OUT

The thesis warms BART's encoder up as a retriever, by its first state in layer 3, 4 or 5, and BERT
by the first state of its last layer: BART's loss stays high, BERT's falls. Here the one model is a
query generator whose encoder has learnt to serve it: the shipped one, its encoder's upper half
re-initialised, trained as a whole to write the pseudo-queries. The two models are that generator,
which then plays no part, and an encoder whose upper half is re-initialised alike. Arms are
`one:LAYER:SIMILARITY` and `two:SIMILARITY`; dot products as they are (the thesis), or cosines times
20, which it tried as a remedy. Batch and learning rate are the thesis's; the table of words is
trained in neither. No arm stops early: what is shown is the curve. `benchmarks.learn.report` judges
OUT.
"""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.learn.run_gpu import MOST_VALIDATED, Bench, Found, arguments, as_retriever
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.training.batching import Batches
from quoth.training.loop import seeded, set_dropout, train
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.glow import renew_layers
from quoth.training.recipes.warm_up import WarmUpPairs, WarmUpRecipe, train_warm_up
from quoth.training.retriever.contrast import compare_in_batch
from quoth.training.retriever.learning import Learned, LearningRun, learn, query_keys
from quoth.training.retriever.passage_set import PassageSet, as_text
from quoth.training.retriever.refresh import encode_passages, encode_queries, top_k
from quoth.training.retriever.retriever import LayerRetriever, VectorMaker
from quoth.training.retriever.validation import held_out_mrr

LAYERS = (3, 4, 5)
SCALES = {"dot": 1.0, "cosine": 20.0}
ARMS = tuple(
    [f"one:{layer}:{how}" for how in SCALES for layer in LAYERS] + [f"two:{how}" for how in SCALES]
)
BATCH = 32
RATE = 1e-4
FIT_BATCH = 64
EVERY = 50
MOST = 384  # held-out queries that are looked at

Rows = NDArray[np.int64]


def main() -> None:
    """Warm up all arms on each collection."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--fit-steps", type=int, default=400, help="of the one query generator")
    parser.set_defaults(arms=",".join(ARMS), start="random", warm_up_steps=500)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    bench = SingleBench(given)
    for name in given.sets.split(",") if given.sets else sorted(bench.tests):
        bench.learn(name)


@dataclass(frozen=True, slots=True)
class Look:
    """What a retriever does with held-out queries after some steps."""

    step: int
    loss: float
    """The warm-up's, in batches as in training."""

    mrr: float
    distinct: float
    """Different passages that are found first, by query; near 0 where all find the same."""

    cosine: float
    """Mean over pairs of queries; near 1 where the vectors do not depend on what is asked."""


class Watch:
    """A validation that keeps a look beside its score."""

    def __init__(self, passage_set: PassageSet, *, every: int, scale: float) -> None:
        self._passages = passage_set
        self._every, self._scale = every, scale
        rows = passage_set.held_out_rows
        most = min(MOST, len(rows))
        spread = np.linspace(0, len(rows) - 1, most).astype(int)
        mixed = np.random.default_rng(0).permutation(spread)  # as batches of training are
        self._rows = rows[mixed]
        self._mrr = held_out_mrr(passage_set, most=MOST, most_passages=MOST_VALIDATED)
        self.looks: list[Look] = []

    def __call__(self, retriever: VectorMaker) -> float:
        """Look, and give the score."""
        queries = encode_queries(retriever, self._passages, self._rows)
        vectors = encode_passages(retriever, self._passages)
        best = top_k(queries, vectors, k=1, similarity=retriever.similarity)
        score = self._mrr(retriever)
        self.looks.append(
            Look(
                step=len(self.looks) * self._every,
                loss=round(self._loss(retriever, queries), 4),
                mrr=round(score, 4),
                distinct=round(len(best.unique()) / len(best), 4),
                cosine=round(mean_cosine(queries), 4),
            )
        )
        return score

    def _loss(self, retriever: VectorMaker, queries: Tensor) -> float:
        """Return the mean loss of whole batches; chance is the logarithm of their size."""
        positives = self._passages.positive_rows[self._rows]
        own = encode_passages(retriever, self._passages, positives)
        size = min(BATCH, len(self._rows))
        batches = [slice(at, at + size) for at in range(0, len(self._rows) - size + 1, size)]
        losses = [
            compare_in_batch(
                queries[each],
                own[each],
                self._passages,
                self._rows[each],
                positives[each],
                scale=self._scale,
                how=retriever.similarity,
            )
            for each in batches
        ]
        return float(torch.stack(losses).mean())


def mean_cosine(vectors: Tensor) -> float:  # (B, D)
    """Return the mean cosine of all pairs of different rows.

    >>> mean_cosine(torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])) == 1 / 3
    True
    """
    unit = functional.normalize(vectors.double(), dim=-1)
    count = len(unit)
    return float((unit.sum(0).square().sum() - count) / (count * (count - 1)))


class SingleBench(Bench):
    """The bench of the one model and of the two."""

    def learn(self, name: str) -> None:
        """Run all arms on one collection."""
        packed = self.open(name)
        states: dict[str, Found] = {"before": self.search(as_retriever(self.network), packed, name)}
        arms = self.given.arms.split(",")
        shared, told = None, {}
        if any(arm.startswith("one:") for arm in arms):
            shared, told = self.fit(packed)
        for arm in arms:
            began = time.perf_counter()
            recipe = self.recipe(arm)
            learned, watch = self.warm_up(arm, recipe, shared, packed)
            seconds = time.perf_counter() - began
            states[arm] = self.search(learned.retriever, packed, name)
            more = {
                "looks": [asdict(each) for each in watch.looks],
                "losses": [[step, round(loss, 4)] for step, loss in learned.report.training.losses],
                "fit": told if arm.startswith("one:") else None,
                "recipe": asdict(recipe),
            }
            self.note(name, arm, learned, seconds, packed, **more)
            self.keep(name, states, {})

    def fit(self, packed: PassageSet) -> tuple[QueryGeneratorNetwork, dict[str, Any]]:
        """Make a query generator with an encoder of its own; say how well both kinds write."""
        began = time.perf_counter()
        generated = packed.only(kinds=("generated",))
        with seeded(self.given.seed, self.device):
            shared = with_own_encoder(self.writer)
        start = per_subword(shared, generated)
        fit_generator(shared, generated, steps=self.given.fit_steps, seed=self.given.seed)
        told = {
            "steps": self.given.fit_steps,
            "seconds": round(time.perf_counter() - began, 1),
            "log_prob_before": start,
            "log_prob": per_subword(shared, generated),
            "log_prob_shipped": per_subword(self.writer, generated),
        }
        print("one model:", told, flush=True)
        return shared, told

    def recipe(self, arm: str) -> WarmUpRecipe:
        """Return the settings of an arm."""
        how = arm.rsplit(":", 1)[-1]
        return WarmUpRecipe(
            similarity=how,
            scale=SCALES[how],
            steps=self.given.warm_up_steps,
            batch_size=BATCH,
            learning_rate=RATE,
            validate_every=min(EVERY, self.given.warm_up_steps),
            patience=0,
            seed=self.given.seed,
        )

    def warm_up(
        self,
        arm: str,
        recipe: WarmUpRecipe,
        shared: QueryGeneratorNetwork | None,
        packed: PassageSet,
    ) -> tuple[Learned, Watch]:
        """Train one arm."""
        generated = packed.only(kinds=("generated",))
        watch = Watch(generated, every=recipe.validate_every, scale=recipe.scale)
        run = LearningRun(self.device, validate=watch)
        if arm.startswith("one:"):
            assert shared is not None
            return warm_up_layer(shared, int(arm.split(":")[1]), packed, recipe, run), watch
        own = copy.deepcopy(self.network)
        own.pooling = "cls"
        encoder: Any = own.query_encoder
        encoder.get_input_embeddings().weight.requires_grad_(False)
        return train_warm_up(own, packed, recipe, run), watch


def with_own_encoder(writer: QueryGeneratorNetwork) -> QueryGeneratorNetwork:
    """Copy a query generator so that its encoder is trained too, from half a fresh start."""
    own = copy.deepcopy(writer)
    own.train_encoder = True
    encoder: Any = own.encoder
    encoder.requires_grad_(True)
    encoder.get_input_embeddings().weight.requires_grad_(False)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler.requires_grad_(False)
    renew_layers(encoder, first=encoder.config.num_hidden_layers // 2)
    return own


class WritingPairs(nn.Module):
    """A query generator whose output is the loss of writing queries for their sources."""

    def __init__(self, writer: QueryGeneratorNetwork, passage_set: PassageSet) -> None:
        super().__init__()
        self.writer = writer
        self._passages = passage_set

    def forward(self, rows: Rows) -> Tensor:
        """Return −log p of a subword, averaged over the queries of some rows."""
        batch = self._passages.passage_batch(self._passages.source_rows[rows])
        targets = self._passages.query_targets(rows)
        states = self.writer.encode(as_text(batch))
        return self.writer.target_losses(targets, states, batch.mask).sum() / targets.mask.sum()


def fit_generator(
    writer: QueryGeneratorNetwork, passage_set: PassageSet, *, steps: int, seed: int
) -> None:
    """Train a query generator in place on the pseudo-queries of a collection."""
    device = next(writer.parameters()).device
    rows = passage_set.training_rows
    sources, keys = passage_set.source_rows[rows], query_keys(passage_set)[rows]
    size = min(FIT_BATCH, max(1, len(np.unique(sources)) // 2))
    with seeded(seed, device) as generator:
        train(
            WritingPairs(writer, passage_set),
            Batches(sources, keys, batch_size=size, seed=seed),
            lambda model, places, _strength: model(rows[places]),
            LoopConfig(steps=steps, learning_rate=RATE),
            generator=generator,
        )


@torch.no_grad()
def per_subword(writer: QueryGeneratorNetwork, passage_set: PassageSet) -> float:
    """Return the mean log-probability of a subword of the held-out queries."""
    writer.eval()
    rows = passage_set.held_out_rows[:MOST]
    pairs = WritingPairs(writer, passage_set)
    losses = [float(pairs(rows[at : at + BATCH])) for at in range(0, len(rows), BATCH)]
    return round(-sum(losses) / len(losses), 4)


def warm_up_layer(
    shared: QueryGeneratorNetwork,
    layer: int,
    packed: PassageSet,
    recipe: WarmUpRecipe,
    run: LearningRun,
) -> Learned:
    """Warm a layer of a copy of the query generator's encoder up as a retriever."""
    with seeded(recipe.seed, run.device):
        retriever = LayerRetriever(
            copy.deepcopy(shared), layer=layer, pooling="cls", similarity=recipe.similarity
        )
        set_dropout(retriever, recipe.dropout)
        return learn(
            WarmUpPairs(retriever, packed, recipe),  # type: ignore[arg-type]
            packed,
            recipe.loop(),
            run,
            batch_size=recipe.batch_size,
            seed=recipe.seed,
        )


if __name__ == "__main__":
    main()
