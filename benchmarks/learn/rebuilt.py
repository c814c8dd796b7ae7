"""Let RUMBArt and ACROBArT write out the queries they rebuild (Tables 6.4 and 6.5), on a GPU.

    python3 -m benchmarks.learn.rebuilt --encoder FOLDER --generator FOLDER --out OUT

Needs what `run_gpu` needs. From the encoder as it is published: warm-up, then each model for
`--steps` steps, without a validation, so that what writes is the model after its last step. Then
every test query, which training has not seen, is rebuilt from the passages found for it: by RUMBArt
from the mixture (every token the likeliest of Σ_i p(z_i|x) · p(token | z_i, tokens before)), from
the best passage alone, and from each of the three best by greedy, beam and nucleus decoding; by
ACROBArT from all at once. Nothing but special subwords is forbidden, repeated words least of all:
what the thesis shows are such repetitions. Writes OUT/rebuilt-<collection>.json, and what each
state finds as `run_gpu` does; `rebuilt_report` and `unlabelled` read them.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.learn.run_gpu import Bench, Found, arguments, as_retriever
from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.decoding import (
    DecodingRules,
    Step,
    beam,
    draw_uniforms,
    greedy,
    nucleus,
)
from quoth.models.query_generator.generator import BEAM_WIDTH
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.training.recipes.acrobart import (
    AcrobartRecipe,
    attention_bias,
    passage_signal,
    train_acrobart,
)
from quoth.training.recipes.rumbart import RumbartRecipe, train_rumbart
from quoth.training.recipes.warm_up import WarmUpRecipe, train_warm_up
from quoth.training.retriever.learning import Learned, LearningRun
from quoth.training.retriever.passage_set import PassageSet, as_text
from quoth.training.retriever.refresh import encode_passages
from quoth.training.retriever.similarity import score_all

ARMS = ("rumbart", "acrobart")
SHOWN = 3  # passages that are written from one by one


def main() -> None:
    """Train and write on each collection."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(sets="msmarco-dl1920", arms=",".join(ARMS))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    bench = RebuildBench(given)
    for name in given.sets.split(","):
        bench.learn(name)


class Neighbours(NamedTuple):
    """What some queries are rebuilt from."""

    scores: Tensor  # (B, K)
    states: Tensor  # (B, K, T, D)
    mask: Tensor  # (B, K, T)


class RebuildBench(Bench):
    """The bench of the models that write."""

    def learn(self, name: str) -> None:
        """Warm up, train the models and let them write, on one collection."""
        packed = self.open(name)
        states: dict[str, Found] = {"before": self.search(as_retriever(self.network), packed, name)}
        began = time.perf_counter()
        recipe = WarmUpRecipe(steps=self.given.warm_up_steps, seed=self.given.seed)
        warm = train_warm_up(self.network, packed, recipe, LearningRun(self.device))
        self.note(name, "warm-up", warm, time.perf_counter() - began, packed)
        states["warm-up"] = self.search(warm.retriever, packed, name)
        written: dict[str, Any] = {}
        for arm in self.given.arms.split(","):
            began = time.perf_counter()
            learned = self.train_writer(arm, warm.network, packed)
            self.note(name, arm, learned, time.perf_counter() - began, packed)
            states[arm] = self.search(learned.retriever, packed, name)
            self.keep(name, states, {})
            written[arm] = self.write(arm, learned, packed, name)
            path = self.given.out / f"rebuilt-{name}.json"
            path.write_text(json.dumps(written, ensure_ascii=False))

    def train_writer(self, arm: str, start: GlowNetwork, packed: PassageSet) -> Learned:
        """Train one model from the warmed-up encoder and the shipped query generator."""
        run = LearningRun(self.device)
        if arm == "rumbart":
            return train_rumbart(start, self.writer, packed, self.rumbart(), run)
        return train_acrobart(start, self.writer, packed, self.acrobart(), run)

    def rumbart(self) -> RumbartRecipe:
        """Return the settings of RUMBArt."""
        return RumbartRecipe(steps=self.given.steps, seed=self.given.seed)

    def acrobart(self) -> AcrobartRecipe:
        """Return the settings of ACROBArT."""
        return AcrobartRecipe(steps=self.given.steps, seed=self.given.seed)

    @torch.inference_mode()
    def write(
        self, arm: str, learned: Learned, packed: PassageSet, name: str
    ) -> list[dict[str, Any]]:
        """Rebuild the test queries of all splits, in their order."""
        writer = learned.query_generator
        assert writer is not None
        writer.eval()
        vectors = encode_passages(learned.retriever, packed).float()
        rules = replace(self.generator.rules(), no_repeat=0)
        told: list[dict[str, Any]] = []
        for texts in self.batches(name, size=16):
            batch = self.encoder.inputs.pad(self.encoder.inputs.queries(texts, None))
            queries = learned.retriever.encode_queries(batch.to(self.device)).float()
            scores = score_all(queries, vectors, similarity=learned.retriever.similarity)
            best = scores.topk(min(self.rumbart().k, packed.num_passages), dim=1)
            neighbours = read_passages(writer, packed, best.values, best.indices)
            if arm == "rumbart":
                found = self.by_rumbart(writer, neighbours, rules)
            else:
                found = self.by_acrobart(writer, neighbours, rules, learned.last_state["beta"])
            rows = packed.document_rows[best.indices[:, :SHOWN].cpu().numpy()].tolist()
            told += [
                {"query": text, "rows": own, **each}
                for text, own, each in zip(texts, rows, found, strict=True)
            ]
        return told

    def by_rumbart(
        self, writer: QueryGeneratorNetwork, neighbours: Neighbours, rules: DecodingRules
    ) -> list[dict[str, Any]]:
        """Rebuild queries from the mixture, and from the best passages one by one."""
        count = len(neighbours.scores)
        log_prior = torch.log_softmax(self.rumbart().score_scale * neighbours.scores, dim=-1)
        mixed = greedy(
            marginal_step(writer, neighbours, log_prior), count, rules, neighbours.mask.device
        )
        shown = min(SHOWN, neighbours.mask.shape[1])
        states = neighbours.states[:, :shown].flatten(0, 1)
        alone = write_alone(writer, states, neighbours.mask[:, :shown].flatten(0, 1), rules)
        texts = {how: self.generator.inputs.texts(own) for how, own in alone.items()}
        return [
            {
                "marginal": marginal,
                "alone": [
                    {how: own[at * shown + place] for how, own in texts.items()}
                    for place in range(shown)
                ],
            }
            for at, marginal in enumerate(self.generator.inputs.texts(mixed))
        ]

    def by_acrobart(
        self,
        writer: QueryGeneratorNetwork,
        neighbours: Neighbours,
        rules: DecodingRules,
        beta: Tensor,
    ) -> list[dict[str, Any]]:
        """Rebuild queries from all passages at once."""
        recipe = self.acrobart()
        signal = passage_signal(neighbours.scores, scale=recipe.score_scale, kind=recipe.bias)
        length = neighbours.mask.shape[2]
        bias = attention_bias(signal, beta.to(signal.device), num_subwords=length)
        step = joined_step(writer, neighbours, bias)
        joined = greedy(step, len(neighbours.scores), rules, neighbours.mask.device)
        return [{"joined": text} for text in self.generator.inputs.texts(joined)]


def read_passages(
    writer: QueryGeneratorNetwork, packed: PassageSet, scores: Tensor, rows: Tensor
) -> Neighbours:
    """Let the query generator read the passages (B, K) of some queries."""
    batch = packed.passage_batch(rows.flatten().cpu().numpy())
    states = writer.encode(as_text(batch))
    shape = tuple(rows.shape)
    return Neighbours(scores, states.unflatten(0, shape), batch.mask.unflatten(0, shape))


def marginal_step(writer: QueryGeneratorNetwork, neighbours: Neighbours, log_prior: Tensor) -> Step:
    """Write from the mixture: log Σ_i p(z_i|x) · p(token | z_i, tokens before), as logits."""
    count, k = log_prior.shape
    inner = writer.begin(neighbours.states.flatten(0, 1), neighbours.mask.flatten(0, 1))

    def step(tokens: Tensor, _parents: Tensor | None = None) -> Tensor:
        logits = inner(tokens.repeat_interleave(k))
        each = torch.log_softmax(logits, dim=-1).view(count, k, -1)
        return torch.logsumexp(log_prior[..., None] + each, dim=1)

    return step


def joined_step(writer: QueryGeneratorNetwork, neighbours: Neighbours, bias: Tensor) -> Step:
    """Write from all passages at once, attention biased; all is computed anew for each token."""
    states, mask = neighbours.states.flatten(1, 2), neighbours.mask.flatten(1, 2)
    written: list[Tensor] = []

    def step(tokens: Tensor, _parents: Tensor | None = None) -> Tensor:
        written.append(tokens)
        return writer.decode(torch.stack(written, dim=1), states, mask, bias=bias)[:, -1].float()

    return step


def write_alone(
    writer: QueryGeneratorNetwork, states: Tensor, mask: Tensor, rules: DecodingRules
) -> dict[str, list[list[int]]]:
    """Write one query for each passage by each way of decoding of the thesis."""
    count, device = len(states), states.device
    wide = writer.begin(states, mask, per_passage=BEAM_WIDTH)
    uniforms = draw_uniforms(count, rules.max_length, seed=(0,)).to(device)
    beams = beam(wide, count, rules, device, width=BEAM_WIDTH)
    return {
        "greedy": greedy(writer.begin(states, mask), count, rules, device),
        "beam": [own[0] if own else [] for own in beams],
        "nucleus": nucleus(writer.begin(states, mask), uniforms, rules, top_p=0.92),
    }


if __name__ == "__main__":
    main()
