"""Train an encoder from a file of pairs: what `quoth train glow` is one call on.

What it keeps on disk meanwhile is described in `folder.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers.utils import logging

from quoth.engine.engine import Engine
from quoth.errors import ConfigError
from quoth.jobs.device import choose_device
from quoth.jobs.glow.folder import (
    Plan,
    Trained,
    finish,
    make_settings,
    prepare_folder,
    read_report,
    require_free,
)
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.inputs import Fields
from quoth.models.glow.network import GlowNetwork
from quoth.models.glow.weights import WordCounts
from quoth.search.lexical.upkeep import STATISTICS_FILE
from quoth.search.searcher import Progress
from quoth.text.words import Analyser, AnalyserConfig
from quoth.training import loop
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.glow import as_encoder, build_network, loop_config, train_glow
from quoth.training.retriever.hard_negatives import NEGATIVE, take_negatives
from quoth.training.retriever.held_out import HeldOut, HeldOutScores, hold_out_queries
from quoth.training.retriever.pair_files import LabelledPair, read_pairs
from quoth.training.retriever.training_set import PLAIN, Pair, TrainingSet, open_training_set
from quoth.training.retriever.training_set import write_training_set as write_set
from quoth.vocabulary.counting import CountedTerms, count_terms
from quoth.vocabulary.statistics import Statistics

_VARIANT = "glow"
_MOST_REPORTS = 200


def train_encoder(plan: Plan, *, progress: Progress, until: int | None = None) -> Trained:
    """Train, judge and save an encoder; an interrupted training goes on where it stopped.

    `until` stops after that step, as an interruption would.
    """
    require_free(plan.out)
    device = choose_device(plan.device)
    pairs = read_pairs(plan.pairs, body=plan.encoder.fields[-1])
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    start = GlowEncoder.load(plan.base, config=plan.encoder, fast=False)
    with _open_counts(plan, pairs, start) as (counts, basis):
        settings = make_settings(plan, base=start.identity()["digest"], basis=basis)
        if plan.resume and (old := read_report(plan, settings)) is not None:
            return old
        prepare_folder(plan, settings)
        held = hold_out_queries(
            [pair.query for pair in pairs], share=plan.held_out, seed=plan.recipe.seed
        )
        judged = _judged(pairs, held, start, counts, seed=plan.recipe.seed) if held else None
        training = [pair for pair in pairs if pair.query not in held]
        training_set = _tokenise(plan, training, start, counts, progress)
    own = counts if isinstance(counts, CountedTerms) and _goes_by_subwords(plan) else None
    run = _Run(plan, device, start, judged, own, progress)
    trained = run.train(training_set, until=until)
    if until is None:
        finish(plan, settings, trained, run.encoder)
    return trained


class _Run:
    """One training: the network before, the loop, the network after."""

    def __init__(
        self,
        plan: Plan,
        device: torch.device,
        start: GlowEncoder,
        judged: HeldOut | None,
        subword_counts: CountedTerms | None,
        progress: Progress,
    ) -> None:
        self._plan = plan
        self._device = device
        self._start = start
        self._judged = judged
        self._subword_counts = subword_counts
        self._progress = progress
        self.encoder = start

    def train(self, training_set: TrainingSet, *, until: int | None) -> Trained:
        plan, base = self._plan, self._start.network.query_encoder
        before = self._judge(self._fresh())
        pairs, negatives = take_negatives(training_set)
        network, report = train_glow(
            base,
            pairs,
            plan.recipe,
            device=self._device,
            loop=self._loop(),
            progress=self._tell,
            checkpoint=plan.work / "checkpoints",
            negatives=negatives,
            until=until,
        )
        after = self._judge(network)
        self.encoder = as_encoder(
            plan.out.name,
            network,
            self._start.tokenizer,
            plan.encoder,
            subword_counts=self._subword_counts,
        )
        return Trained(
            plan.out,
            len(pairs),
            0 if self._judged is None else self._judged.num_queries,
            0 if self._judged is None else self._judged.num_passages,
            report.steps,
            report.losses,
            str(self._device),
            before,
            after,
        )

    def _loop(self) -> LoopConfig:
        steps = self._plan.recipe.steps
        return replace(
            loop_config(self._plan.recipe),
            report_every=max(1, steps // _MOST_REPORTS),
            checkpoint_every=self._plan.checkpoint_every,
        )

    def _tell(self, report: loop.Progress) -> None:
        self._progress("training", report.step, self._plan.recipe.steps)

    def _fresh(self) -> GlowNetwork:
        """Make the network as it is before its first step, fresh layers included."""
        with torch.random.fork_rng():
            torch.manual_seed(self._plan.recipe.seed)
            return build_network(self._start.network.query_encoder, self._plan.recipe)

    def _judge(self, network: GlowNetwork) -> HeldOutScores | None:
        if self._judged is None:
            return None
        self._progress("searching for held-out queries", 0, 0)
        return self._judged.judge(network.to(self._device), self._device)


@contextlib.contextmanager
def _open_counts(
    plan: Plan, pairs: Sequence[LabelledPair], start: GlowEncoder
) -> Iterator[tuple[WordCounts | None, Mapping[str, Any]]]:
    """Yield the word statistics, and what they rest on; none where attention is not weighted."""
    if plan.encoder.weighting == "none":
        yield None, {}
    elif plan.collection is None:
        yield _count(pairs, start), {"from": "pairs"}
    elif _goes_by_subwords(plan):
        raise ConfigError(
            "encoder.statistics is 'subwords', but a collection counts words; leave out"
            " --collection, or set encoder.statistics to words"
        )
    else:
        with Engine.open(plan.collection) as engine:
            engine.status()  # brings the statistics up to date
        path = plan.collection / "lexical" / STATISTICS_FILE
        with contextlib.closing(Statistics.open(path)) as statistics:
            yield statistics, {"from": "collection", **statistics.basis}


def _goes_by_subwords(plan: Plan) -> bool:
    return plan.encoder.weighting != "none" and plan.encoder.statistics == "subwords"


def _count(pairs: Sequence[LabelledPair], start: GlowEncoder) -> CountedTerms:
    """Count the words, or the subwords, of every distinct passage."""
    analyser = Analyser(AnalyserConfig())
    tokenizer = start.tokenizer

    def terms(text: str) -> list[str]:
        if start.config.statistics == "words":
            return analyser.terms(text)
        return list(tokenizer.encode(text, add_special_tokens=False).tokens)

    return count_terms(
        {name: [terms(text) for text in texts] for name, texts in fields.items()}
        for fields in _distinct(pairs)
    )


def _distinct(pairs: Sequence[LabelledPair]) -> list[Fields]:
    every = (fields for pair in pairs for fields in (pair.passage, *pair.negatives))
    return list({json.dumps(fields, sort_keys=True): fields for fields in every}.values())


def _judged(
    pairs: Sequence[LabelledPair],
    held: set[str],
    start: GlowEncoder,
    counts: WordCounts | None,
    *,
    seed: int,
) -> HeldOut:
    answers = [(pair.query, pair.passage) for pair in pairs if pair.query in held]
    return HeldOut(answers, _distinct(pairs), inputs=start.inputs, counts=counts, seed=seed)


def _tokenise(
    plan: Plan,
    pairs: Sequence[LabelledPair],
    start: GlowEncoder,
    counts: WordCounts | None,
    progress: Progress,
) -> TrainingSet:
    """Write the training set, unless an earlier run has, and open it."""
    folder, total = plan.work / "training-set", len(pairs)
    if not (folder / "artifact.json").exists():
        every = (
            each
            for pair in pairs
            for each in (
                Pair(pair.query, pair.passage),
                *(Pair(pair.query, fields, NEGATIVE) for fields in pair.negatives),
            )
        )
        write_set(
            folder,
            every,
            variants={_VARIANT: start.inputs},
            counts=counts,
            progress=lambda done: progress("reading pairs", min(done, total), total),
        )
    is_weighted = plan.encoder.weighting != "none"
    found = open_training_set(folder, variant=_VARIANT if is_weighted else PLAIN)
    pad = start.inputs.pad_id
    return replace(
        found, queries=replace(found.queries, pad=pad), documents=replace(found.documents, pad=pad)
    )
