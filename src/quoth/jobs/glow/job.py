"""Train an encoder from a file of pairs: what `quoth train glow` is one call on."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from quoth.artifact import seal_file
from quoth.engine.engine import Engine
from quoth.engine.models import be_quiet
from quoth.errors import ConfigError
from quoth.jobs.device import choose_device
from quoth.jobs.glow.report import GlowReport, GlowRequest
from quoth.jobs.job import Job, Work, run_job
from quoth.jobs.job_folder import JobFolder
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.files import SETTINGS_FILE, plain_config
from quoth.models.glow.inputs import Fields
from quoth.models.glow.network import GlowNetwork
from quoth.models.glow.weights import CountedWords, WordCounts
from quoth.models.pretrained import find_folder, load_tokenizer
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
    with _open_counts(request, pairs) as counted:
        job = GlowJob(request, pairs, counted, device=device, progress=progress)
        outcome = run_job(job, restart=not request.resume)
    assert outcome.report is not None
    return replace(outcome.report, out=request.out, is_old=outcome.is_old)


@dataclass(frozen=True, slots=True)
class _Counted:
    """The word statistics that weigh attention, if any, and what they rest on."""

    counts: WordCounts | None = None
    basis: Mapping[str, Any] = field(default_factory=dict)
    terms: Callable[[str], Sequence[str]] = str.split
    """Finds the words, or the subwords, that are counted."""


class GlowJob(Job[GlowReport]):
    """One training: the pairs as subwords, the loop, the encoder before and after."""

    report_type = GlowReport

    def __init__(
        self,
        request: GlowRequest,
        pairs: Sequence[LabelledPair],
        counted: _Counted,
        *,
        device: torch.device,
        progress: Progress,
    ) -> None:
        super().__init__(JobFolder.beside(request.out))
        self._request = request
        self._pairs = pairs
        self._counted = counted
        self._progress = progress
        self._device = device
        self._held = hold_out_queries(
            [pair.query for pair in pairs], share=request.held_out, seed=request.recipe.seed
        )
        self._config = self._with_query_length(request.encoder)
        self._base = GlowEncoder.load(request.base, fast=False)
        self._start = GlowEncoder.load(request.base, config=self._config, fast=False)

    def settings(self) -> dict[str, Any]:
        """Return everything that decides what comes out."""
        request = self._request
        return {
            "pairs": seal_file(request.pairs).sha256,
            "base": self._start.identity()["digest"],
            "held_out": request.held_out,
            "statistics": dict(self._counted.basis),
            "glow": asdict(request.recipe),
            "encoder": plain_config(self._config),
            "layers": {"of the base": self._base.num_layers, "trained": self._start.num_layers},
        }

    def stages(self) -> Mapping[str, Work]:
        """Return the stages, in their order."""
        return {
            "training set": self.training_set,
            "judge before": lambda: self._judge(self._base.network, self._base),
            "judge start": self.judge_start,
            "training": self.training,
            "judge after": lambda: self._judge(self._trained().network, self._start),
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

    def judge_start(self) -> dict[str, Any]:
        """Judge what training begins with, where that is not the base as it is."""
        is_base = plain_config(self._config) == plain_config(self._base.config)
        if is_base and self._request.recipe.start == "pretrained":
            return self.folder.found("judge before")
        return self._judge(self._fresh(), self._start)

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
            self._config,
            subword_counts=self._subword_counts,
        ).save(self._encoder)
        return {"pairs": len(pairs), "steps": report.steps, "losses": report.losses}

    def save(self) -> dict[str, Any]:
        """Put the encoder where it is wanted."""
        self._trained().save(self._request.out)
        return {}

    def report(self) -> GlowReport:
        """Put together what the stages found."""
        trained = self.folder.found("training")
        judged = {name: self.folder.found(f"judge {name}") for name in ("before", "start", "after")}
        scores = {
            name: HeldOutScores(found["mrr"], found["ndcg"]) if found else None
            for name, found in judged.items()
        }
        return GlowReport(
            self._request.out,
            trained["pairs"],
            judged["after"].get("queries", 0),
            judged["after"].get("passages", 0),
            trained["steps"],
            tuple((step, loss) for step, loss in trained["losses"]),
            str(self._device),
            num_layers=self._start.num_layers,
            base_layers=self._base.num_layers,
            before=scores["before"],
            start=scores["start"],
            after=scores["after"],
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

    def _with_query_length(self, config: GlowConfig) -> GlowConfig:
        """Measure how long queries are that are trained with, where weights go by that (avl_q)."""
        if config.weighting == "none" or config.preset != "paper" or config.query_length:
            return config
        queries = {pair.query for pair in self._pairs} - self._held
        lengths = [len(self._counted.terms(query)) for query in queries]
        return replace(config, query_length=round(sum(lengths) / max(1, len(lengths)), 4))

    def _judge(self, network: GlowNetwork, encoder: GlowEncoder) -> dict[str, Any]:
        """Search for held-out queries among all passages, read as an encoder reads them."""
        if not self._held:
            return {}
        self._progress("searching for held-out queries", 0, 0)
        counts = self._counted.counts
        if counts is None and encoder.config.weighting != "none":
            counts = _count(self._pairs, self._counted.terms)
        judged = HeldOut(
            [(pair.query, pair.passage) for pair in self._pairs if pair.query in self._held],
            _distinct(self._pairs),
            inputs=encoder.inputs,
            counts=counts,
            seed=self._request.recipe.seed,
        )
        scores = asdict(judged.judge(network.to(self._device), self._device))
        return {**scores, "queries": judged.num_queries, "passages": judged.num_passages}


def _require_free(out: Path) -> None:
    """Refuse, before any work, to save over something that is no encoder."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; name a new folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / SETTINGS_FILE).exists():
        raise ConfigError(f"{out} holds something else than an encoder; name a new folder")


@contextlib.contextmanager
def _open_counts(request: GlowRequest, pairs: Sequence[LabelledPair]) -> Iterator[_Counted]:
    """Yield the word statistics; none where attention is not weighted.

    Frequencies may be a collection's; lengths are always those of the passages trained with.
    """
    analyser = Analyser(request.analyser)
    if request.encoder.weighting == "none":
        yield _Counted(terms=analyser.terms)
    elif request.collection is None and _goes_by_subwords(request):
        terms = functools.partial(_subwords, load_tokenizer(find_folder(request.base)))
        yield _Counted(_count(pairs, terms), {"from": "pairs"}, terms)
    elif request.collection is None:
        counts = CountedWords(_count(pairs, analyser.terms), analyser)
        basis = {"from": "pairs"} | _unusual(analyser)
        yield _Counted(counts, basis, analyser.terms)
    elif _goes_by_subwords(request):
        raise ConfigError(
            "encoder.statistics is 'subwords', but a collection counts words; leave out"
            " --collection, or set encoder.statistics to words"
        )
    else:
        with Engine.open(request.collection) as engine:
            engine.status()  # brings the statistics up to date
            analyser = Analyser(engine.config.analyser)
        lengths = _count(pairs, analyser.terms).average_lengths()
        path = request.collection / "lexical" / STATISTICS_FILE
        with contextlib.closing(Statistics.open(path)) as statistics:
            counts = CountedWords(statistics, analyser, lengths)
            yield _Counted(counts, {"from": "collection", **statistics.basis}, analyser.terms)


def _goes_by_subwords(request: GlowRequest) -> bool:
    return request.encoder.weighting != "none" and request.encoder.statistics == "subwords"


def _unusual(analyser: Analyser) -> dict[str, Any]:
    """Name an analyser that is not the usual one."""
    is_usual = analyser.config == AnalyserConfig()
    return {} if is_usual else {"analyser": analyser.identity()}


def _subwords(tokenizer: Tokenizer, text: str) -> list[str]:
    return list(tokenizer.encode(text, add_special_tokens=False).tokens)


def _count(pairs: Sequence[LabelledPair], terms: Callable[[str], Sequence[str]]) -> CountedTerms:
    """Count the words, or the subwords, of every distinct passage."""
    return count_terms(
        {name: [list(terms(text)) for text in texts] for name, texts in fields.items()}
        for fields in _distinct(pairs)
    )


def _distinct(pairs: Sequence[LabelledPair]) -> list[Fields]:
    every = (fields for pair in pairs for fields in (pair.passage, *pair.negatives))
    return list({json.dumps(fields, sort_keys=True): fields for fields in every}.values())
