"""The recipe of the dynamic language model: texts and quotations, with phrases and without.

Each batch is run twice, as a mixed sequence of subwords and phrases and as plain subwords, and
three losses are added: on the mixed run, on the plain run, and between them. With `phrase_input`
unfold, phrases are read as subwords, so one run serves both and there is nothing between. Only what
the model lets be trained is: adapters and the phrase encoder, or all weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.models.dynamic_lm.network import DynamicNetwork
from quoth.training.batching import Batches
from quoth.training.loop import BeforeStep, Progress, TrainingReport, seeded, train
from quoth.training.quoting.batches import BatchMaker, DynamicBatch
from quoth.training.quoting.batches_ahead import BatchesAhead
from quoth.training.quoting.joined_runs import join_runs
from quoth.training.quoting.losses import (
    MixedTerms,
    SentenceTerms,
    divergences,
    mean_or_zero,
    mixed_terms,
    plain_losses,
    sentence_terms,
)
from quoth.training.quoting.phrase_negatives import key_ids
from quoth.training.quoting.set import DynamicSet, SubwordTable
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

_FREE = -1  # a place of the columns kept from the batch before that holds none


class DynamicProgress(NamedTuple):
    """What a run reports; losses and shares are means since the report before."""

    step: int
    loss: float
    learning_rate: float
    mixed: float
    plain: float
    kl: float
    choice: float
    """−log of the right phrase's probability among phrases alone, whether or not it is a loss."""
    sentence: float
    """−log of the right sentence's probability among those told apart."""
    sentence_recall: float
    """Share of the sentences that answer whose phrases have the highest score together."""
    phrase_share: float
    """Share of the places at which a phrase has the highest score."""
    phrase_recall: float
    """Share of the right phrases that have the highest score."""
    phrase_precision: float
    """Share of the phrases with the highest score that are right."""
    columns: float
    """Phrases offered per batch."""


@dataclass(frozen=True, slots=True)
class DynamicLMReport:
    """What a run did; the curve begins where the run was last resumed."""

    training: TrainingReport
    curve: tuple[DynamicProgress, ...]


class DynamicModule(nn.Module):
    """What is trained: a network whose output is the loss of a batch."""

    def __init__(
        self, network: DynamicNetwork, recipe: DynamicLMRecipe, *, unfolds: bool = False
    ) -> None:
        super().__init__()
        self.network = network
        self.tally = _Tally()
        self._recipe = recipe
        self._unfolds = unfolds
        if kept := recipe.negatives.pre_batch:
            longest = max(recipe.sampling.max_subwords, recipe.max_candidate_subwords)
            wide = longest + recipe.negatives.extension
            before = torch.full((kept, wide), _FREE, dtype=torch.int64)
            self.register_buffer("before_ids", before)  # buffers travel in checkpoints
            self.register_buffer("before_vectors", torch.zeros(kept, network.phrase_width))

    def forward(self, batch: DynamicBatch) -> Tensor:
        """Return the weighted loss of a batch."""
        recipe = self._recipe
        vectors = self._encode(batch)
        plain, mixed = self._run(batch, vectors)
        zero = torch.zeros((), device=batch.plain_ids.device)
        losses = [zero, zero, zero, zero, zero]
        if mixed is not None:
            losses[0], losses[3], losses[4] = self._of_phrases(batch, mixed, vectors)
        if plain is not None and recipe.plain_weight:
            rows = plain[batch.plain_rows]
            losses[1] = mean_or_zero(plain_losses(self.network, rows, batch.plain_targets))
        if plain is not None and mixed is not None and recipe.kl_weight and not self._unfolds:
            losses[2] = self._divergence(batch, mixed, plain)
        self.tally.add(*(each.detach() for each in losses))
        weights = (
            recipe.mixed_weight,
            recipe.plain_weight,
            recipe.kl_weight,
            recipe.choice_weight,
            recipe.sentence_weight,
        )
        return torch.stack(
            [weight * each for weight, each in zip(weights, losses, strict=True)]
        ).sum()

    def _of_phrases(
        self, batch: DynamicBatch, mixed: Tensor, vectors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the losses over V ∪ P, among phrases alone, and among sentences."""
        terms = mixed_terms(
            self.network,
            mixed,
            batch.targets,
            phrase_vectors=self._with_columns_before(batch, vectors),
            blocked=batch.blocked,
            offered=batch.offered if batch.offered.numel() else None,
            num_learnt=len(vectors),
        )
        self.tally.choices(terms, batch, self.network.num_subwords)
        choices = mean_or_zero(terms.choices[batch.targets >= self.network.num_subwords])
        told = sentence_terms(
            self.network,
            mixed[batch.sentence_places],
            batch.sentence_columns,
            phrase_vectors=vectors,
        )
        self.tally.sentences(told)
        return mean_or_zero(terms.losses), choices, mean_or_zero(told.losses)

    def _encode(self, batch: DynamicBatch) -> Tensor:  # (C, D)
        """Encode the strings of a batch once, and take the states that are columns."""
        if not len(batch.column_rows):
            return torch.zeros(0, self.network.phrase_width, device=batch.plain_ids.device)
        prefixes = self.network.encode_prefixes(batch.column_ids, mask=batch.column_mask)
        return prefixes[batch.column_rows, batch.column_ends]

    def _run(
        self, batch: DynamicBatch, vectors: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:  # (B · T, D), (N, D)
        """Return the states of the plain run, and those that predict mixed tokens; both at once."""
        recipe = self._recipe
        needs_plain = bool(recipe.plain_weight or recipe.kl_weight or self._unfolds)
        needs_mixed = bool(recipe.mixed_weight) and not self._unfolds
        if needs_plain and needs_mixed and batch.is_quotation:
            return self._run_joined(batch, vectors)
        runs = [(batch.plain_ids, batch.plain_mask)] if needs_plain else []
        runs += [(batch.mixed_ids, batch.mixed_mask)] if needs_mixed else []
        length = max(ids.shape[1] for ids, _mask in runs)
        ids, mask = (
            torch.cat([functional.pad(each, (0, length - each.shape[1])) for each in own])
            for own in zip(*runs, strict=True)
        )
        states = self.network.states(self.network.embed(ids, phrase_vectors=vectors), mask=mask)
        cut = [
            own[:, : each.shape[1]].flatten(0, 1)
            for own, (each, _mask) in zip(states.chunk(len(runs)), runs, strict=True)
        ]
        plain = cut[0] if needs_plain else None
        if needs_mixed:
            return plain, cut[-1][batch.mixed_rows]
        if recipe.mixed_weight and plain is not None:  # phrases are read as subwords
            return plain, plain[batch.after_rows]
        return plain, None

    def _run_joined(self, batch: DynamicBatch, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Run prompts once, and both kinds of answers behind them, which do not see each other."""
        joined = join_runs(batch)
        embedded = self.network.embed(joined.token_ids, phrase_vectors=vectors)
        states = self.network.states(embedded, mask=joined.seen, positions=joined.positions)
        plain = states[:, : batch.plain_ids.shape[1]].flatten(0, 1)
        return plain, states.flatten(0, 1)[joined.mixed_rows]

    def _divergence(self, batch: DynamicBatch, mixed: Tensor, plain: Tensor) -> Tensor:
        recipe = self._recipe
        other = plain[batch.after_rows if recipe.kl_align == "after" else batch.literal_rows]
        if recipe.kl_detach:
            other = other.detach()
        if recipe.kl_skip_phrases:
            kept = batch.targets < self.network.num_subwords
            mixed, other = mixed[kept], other[kept]
        return mean_or_zero(divergences(self.network, mixed, other))

    def _with_columns_before(self, batch: DynamicBatch, vectors: Tensor) -> Tensor:
        """Append the columns of the batch before that this one lacks, and keep this one's."""
        if not self._recipe.negatives.pre_batch or batch.offered.numel():
            return vectors
        known = set(batch.phrases)
        ids, stored = self.before_ids, self.before_vectors
        assert isinstance(ids, Tensor) and isinstance(stored, Tensor)
        new = [
            at
            for at, own in enumerate(ids.cpu().numpy().astype(np.int32))
            if own[0] != _FREE and own[own != _FREE].tobytes() not in known
        ]
        before = stored[new].clone()
        if self.training:
            self._keep(batch, vectors.detach())
        return torch.cat((vectors, before.to(vectors.dtype)))

    def _keep(self, batch: DynamicBatch, vectors: Tensor) -> None:
        ids, stored = self.before_ids, self.before_vectors
        assert isinstance(ids, Tensor) and isinstance(stored, Tensor)
        kept = np.full(ids.shape, _FREE, dtype=np.int64)
        fitting = [at for at, key in enumerate(batch.phrases) if len(key_ids(key)) <= ids.shape[1]][
            : len(kept)
        ]
        for to, at in enumerate(fitting):
            own = key_ids(batch.phrases[at])
            kept[to, : len(own)] = own
        ids.copy_(torch.from_numpy(kept))
        stored[: len(fitting)] = vectors[fitting].float()


def train_dynamic_lm(
    model: DynamicLM,
    dynamic_set: DynamicSet,
    *,
    config: DynamicLMRecipe,
    device: torch.device,
    progress: Callable[[DynamicProgress], None] | None = None,
    checkpoint: Path | None = None,
    until: int | None = None,
    before_step: BeforeStep | None = None,
    workers: int = 0,
) -> tuple[DynamicLM, DynamicLMReport]:
    """Train a copy of a model, going on from the latest checkpoint where there is one.

    `until` stops after that step, as an interruption would, and writes a checkpoint; `before_step`
    may end the run by naming a reason. Batches are made by as many processes as there are
    `workers`, 0 for a thread.
    """
    curve: list[DynamicProgress] = []
    with seeded(config.seed, device) as generator:
        network = copy.deepcopy(model.network).to(device)
        unfolds = model.config.phrase_input == "unfold"
        module = DynamicModule(network, config, unfolds=unfolds).to(device)

        def tell(done: Progress) -> None:
            curve.append(module.tally.report(done))
            if progress is not None:
                progress(curve[-1])

        maker = BatchMaker(dynamic_set, config, mark=model.passage_marker)
        with closing(BatchesAhead(maker, workers=workers)) as ahead:
            report = train(
                module,
                _Numbers(),
                lambda own, number, _strength: own(ahead.take(int(number[0])).to(device)),
                config.loop(),
                generator=generator,
                progress=tell,
                checkpoint=checkpoint,
                until=until,
                before_step=before_step,
            )
    trained = DynamicLM(network, inputs=model.inputs, config=model.config, source=model.source)
    return trained, DynamicLMReport(report, tuple(curve))


@torch.inference_mode()
def plain_loss(network: DynamicNetwork, texts: SubwordTable, *, batch_size: int = 8) -> float:
    """Return the mean of −log p over all subwords but the first of each text, without phrases."""
    was_training = network.training
    network.eval()
    device = next(network.parameters()).device
    none = torch.zeros(0, network.phrase_width, device=device)
    total, count = 0.0, 0
    for start in range(0, len(texts), batch_size):
        own = [texts[row].subword_ids for row in range(start, min(start + batch_size, len(texts)))]
        ids = nn.utils.rnn.pad_sequence([torch.from_numpy(each) for each in own], batch_first=True)
        lengths = torch.tensor([len(each) for each in own])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        ids, mask = ids.to(device), mask.to(device)
        states = network.states(network.embed(ids, phrase_vectors=none), mask=mask)
        rows, targets = states[:, :-1][mask[:, 1:]], ids[:, 1:][mask[:, 1:]]
        total += float(plain_losses(network, rows, targets).double().sum())
        count += len(targets)
    network.train(was_training)
    return total / max(count, 1)


class _Numbers(Batches):
    """Lets the loop name batches by their number, from which all of them follow."""

    def __init__(self) -> None:
        pass

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        return np.array([number])


class _Tally:
    """Adds up what is reported, on the device, until it is asked for."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._losses = torch.zeros(5)
        self._choices = torch.zeros(4)
        self._sentences = torch.zeros(3)  # their losses, those that were found, and all
        self._batches = 0
        self._columns = 0

    def add(self, *losses: Tensor) -> None:
        """Note the losses of a batch."""
        self._losses = self._losses.to(losses[0].device) + torch.stack(losses)
        self._batches += 1

    def choices(self, terms: MixedTerms, batch: DynamicBatch, num_subwords: int) -> None:
        """Count places, phrases chosen, phrases that are right, and phrases rightly chosen."""
        gold = batch.targets >= num_subwords
        found = (torch.ones_like(gold), terms.is_phrase, gold, gold & terms.is_right)
        counts = torch.stack([each.sum() for each in found]).float()
        self._choices = self._choices.to(counts.device) + counts
        self._columns += len(batch.phrases)

    def sentences(self, terms: SentenceTerms) -> None:
        """Note the sentences told apart."""
        count = torch.full_like(terms.losses, 1.0)
        found = (terms.losses.detach(), terms.is_right.float(), count)
        sums = torch.stack([each.sum() for each in found]).float()
        self._sentences = self._sentences.to(sums.device) + sums

    def counts(self) -> dict[str, float]:
        """Return what the shares are made of; places and sentences with their losses summed."""
        places, chosen, gold, right = self._choices.tolist()
        sentence, found, told = self._sentences.tolist()
        mixed = float(self._losses[0]) / max(self._batches, 1) * places
        return {
            "places": places,
            "mixed": mixed,
            "gold": gold,
            "chosen": chosen,
            "right": right,
            "told": told,
            "sentence": sentence,
            "found": found,
        }

    def report(self, done: Progress) -> DynamicProgress:
        """Return the means, and begin anew."""
        batches = max(self._batches, 1)
        mixed, plain, kl, choice, _sentence = (self._losses / batches).tolist()
        sentence, found, told = self._sentences.tolist()
        places, chosen, gold, right = self._choices.tolist()
        columns = self._columns / batches
        self._begin()
        return DynamicProgress(
            done.step,
            done.loss,
            done.learning_rate,
            mixed,
            plain,
            kl,
            choice,
            sentence / max(told, 1),
            found / max(told, 1),
            chosen / max(places, 1),
            right / max(gold, 1),
            right / max(chosen, 1),
            columns,
        )
