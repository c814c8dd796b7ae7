"""Train an encoder from a file of pairs: what `quoth train glow` is one call on."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from quoth.artifact import seal_file
from quoth.engine.engine import Engine
from quoth.engine.models import be_quiet
from quoth.errors import ConfigError
from quoth.jobs.device import choose_device
from quoth.jobs.glow.report import GlowReport, GlowRequest
from quoth.jobs.job import Job, Work, run_job
from quoth.jobs.job_folder import JobFolder
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.files import SETTINGS_FILE, plain_config
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


def train_encoder(request: GlowRequest, *, progress: Progress) -> GlowReport:
    """Train, judge and save an encoder; an interrupted training goes on where it stopped."""
    _require_free(request.out)
    device = choose_device(request.device)
    be_quiet()
    pairs = read_pairs(request.pairs, body=request.encoder.fields[-1])
    start = GlowEncoder.load(request.base, config=request.encoder, fast=False)
    with _open_counts(request, pairs, start) as counted:
        job = GlowJob(request, pairs, start, counted, device=device, progress=progress)
        outcome = run_job(job, restart=not request.resume)
    assert outcome.report is not None
    return replace(outcome.report, out=request.out, is_old=outcome.is_old)


@dataclass(frozen=True, slots=True)
class _Counted:
    """The word statistics that weigh attention, if any, and what they rest on."""

    counts: WordCounts | None = None
    basis: Mapping[str, Any] = field(default_factory=dict)


class GlowJob(Job[GlowReport]):
    """One training: the pairs as subwords, the loop, the encoder before and after."""

    report_type = GlowReport

    def __init__(
        self,
        request: GlowRequest,
        pairs: Sequence[LabelledPair],
        start: GlowEncoder,
        counted: _Counted,
        *,
        device: torch.device,
        progress: Progress,
    ) -> None:
        super().__init__(JobFolder.beside(request.out))
        self._request = request
        self._pairs = pairs
        self._start = start
        self._counted = counted
        self._progress = progress
        self._device = device
        self._held = hold_out_queries(
            [pair.query for pair in pairs], share=request.held_out, seed=request.recipe.seed
        )

    def settings(self) -> dict[str, Any]:
        """Return everything that decides what comes out."""
        request = self._request
        return {
            "pairs": seal_file(request.pairs).sha256,
            "base": self._start.identity()["digest"],
            "held_out": request.held_out,
            "statistics": dict(self._counted.basis),
            "glow": asdict(request.recipe),
            "encoder": plain_config(request.encoder),
        }

    def stages(self) -> Mapping[str, Work]:
        """Return the stages, in their order."""
        return {
            "training set": self.training_set,
            "judge before": lambda: self._judge(self._fresh()),
            "training": self.training,
            "judge after": lambda: self._judge(self._trained().network),
            "save": self.save,
        }

    def training_set(self) -> dict[str, Any]:
        """Write the pairs as subwords."""
        training = [pair for pair in self._pairs if pair.query not in self._held]
        every = (
            each
            for pair in training
            for each in (
                Pair(pair.query, pair.passage),
                *(Pair(pair.query, fields, NEGATIVE) for fields in pair.negatives),
            )
        )
        total = len(training)
        write_set(
            self._training_set,
            every,
            variants={_VARIANT: self._start.inputs},
            counts=self._counted.counts,
            progress=lambda done: self._progress("reading pairs", min(done, total), total),
        )
        return {}

    def training(self) -> dict[str, Any]:
        """Train, from the last checkpoint on, and keep the encoder."""
        pairs, negatives = take_negatives(self._open_training_set())
        network, report = train_glow(
            self._start.network.query_encoder,
            pairs,
            self._request.recipe,
            device=self._device,
            loop=self._loop(),
            progress=self._tell,
            checkpoint=self.folder.path / "checkpoints",
            negatives=negatives,
        )
        as_encoder(
            self._request.out.name,
            network,
            self._start.tokenizer,
            self._request.encoder,
            subword_counts=self._subword_counts,
        ).save(self._encoder)
        return {"pairs": len(pairs), "steps": report.steps, "losses": report.losses}

    def save(self) -> dict[str, Any]:
        """Put the encoder where it is wanted."""
        self._trained().save(self._request.out)
        return {}

    def report(self) -> GlowReport:
        """Put together what the stages found."""
        trained, judged = self.folder.found("training"), self._judged
        before, after = (
            HeldOutScores(**found) if (found := self.folder.found(name)) else None
            for name in ("judge before", "judge after")
        )
        return GlowReport(
            self._request.out,
            trained["pairs"],
            0 if judged is None else judged.num_queries,
            0 if judged is None else judged.num_passages,
            trained["steps"],
            tuple((step, loss) for step, loss in trained["losses"]),
            str(self._device),
            before,
            after,
        )

    @property
    def _training_set(self) -> Path:
        return self.folder.path / "training-set"

    @property
    def _encoder(self) -> Path:
        return self.folder.path / "encoder"

    @property
    def _subword_counts(self) -> CountedTerms | None:
        """The statistics of subwords, which travel with the encoder."""
        counts = self._counted.counts
        if isinstance(counts, CountedTerms) and _goes_by_subwords(self._request):
            return counts
        return None

    def _open_training_set(self) -> TrainingSet:
        is_weighted = self._request.encoder.weighting != "none"
        found = open_training_set(self._training_set, variant=_VARIANT if is_weighted else PLAIN)
        pad = self._start.inputs.pad_id
        return replace(
            found,
            queries=replace(found.queries, pad=pad),
            documents=replace(found.documents, pad=pad),
        )

    def _loop(self) -> LoopConfig:
        recipe = self._request.recipe
        return replace(
            loop_config(recipe),
            report_every=max(1, recipe.steps // _MOST_REPORTS),
            checkpoint_every=self._request.checkpoint_every,
        )

    def _tell(self, report: loop.Progress) -> None:
        self._progress("training", report.step, self._request.recipe.steps)

    def _fresh(self) -> GlowNetwork:
        """Make the network as it is before its first step, fresh layers included."""
        with torch.random.fork_rng():
            torch.manual_seed(self._request.recipe.seed)
            return build_network(self._start.network.query_encoder, self._request.recipe)

    def _trained(self) -> GlowEncoder:
        return GlowEncoder.load(str(self._encoder), fast=False)

    @functools.cached_property
    def _judged(self) -> HeldOut | None:
        """The held-out queries and all passages; None where nothing is held out."""
        if not self._held:
            return None
        return HeldOut(
            [(pair.query, pair.passage) for pair in self._pairs if pair.query in self._held],
            _distinct(self._pairs),
            inputs=self._start.inputs,
            counts=self._counted.counts,
            seed=self._request.recipe.seed,
        )

    def _judge(self, network: GlowNetwork) -> dict[str, Any]:
        if self._judged is None:
            return {}
        self._progress("searching for held-out queries", 0, 0)
        return asdict(self._judged.judge(network.to(self._device), self._device))


def _require_free(out: Path) -> None:
    """Refuse, before any work, to save over something that is no encoder."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; name a new folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / SETTINGS_FILE).exists():
        raise ConfigError(f"{out} holds something else than an encoder; name a new folder")


@contextlib.contextmanager
def _open_counts(
    request: GlowRequest, pairs: Sequence[LabelledPair], start: GlowEncoder
) -> Iterator[_Counted]:
    """Yield the word statistics; none where attention is not weighted."""
    if request.encoder.weighting == "none":
        yield _Counted()
    elif request.collection is None:
        yield _Counted(_count(pairs, start), {"from": "pairs"})
    elif _goes_by_subwords(request):
        raise ConfigError(
            "encoder.statistics is 'subwords', but a collection counts words; leave out"
            " --collection, or set encoder.statistics to words"
        )
    else:
        with Engine.open(request.collection) as engine:
            engine.status()  # brings the statistics up to date
        path = request.collection / "lexical" / STATISTICS_FILE
        with contextlib.closing(Statistics.open(path)) as statistics:
            yield _Counted(statistics, {"from": "collection", **statistics.basis})


def _goes_by_subwords(request: GlowRequest) -> bool:
    return request.encoder.weighting != "none" and request.encoder.statistics == "subwords"


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
