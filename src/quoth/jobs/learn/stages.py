"""The work of `quoth learn`, stage by stage; whatever a stage needs it reads from disk.

written/         pseudo-queries, one file per chunk of passages
passages.set     what is trained on, tokenised
training.json    its queries as text
stages/          checkpoints and results of training
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from quoth.artifact import seal_file, write_text_atomically
from quoth.engine.encoding import encode_all
from quoth.engine.searchers import Searchers
from quoth.errors import ConfigError, Damaged
from quoth.jobs.context import JobContext
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn.curricula import make_curriculum
from quoth.jobs.learn.encoders import set_aside, with_encoder
from quoth.jobs.learn.fitting_sizes import FITTING_SIZES
from quoth.jobs.learn.judging import Judged, check_leak, decide, judge, make_judged
from quoth.jobs.learn.pairs import LabelledQueries, read_labelled
from quoth.jobs.learn.plan import LearnPlan
from quoth.jobs.learn.queries import (
    PassageLookup,
    Unit,
    make_training_queries,
    one_by_one,
    read_written,
    spread,
    units_of,
    write_queries,
)
from quoth.jobs.learn.query_log import read_log
from quoth.jobs.learn.reranker import (
    READER,
    RerankerWork,
    fit_reranker,
    why_not,
    with_shipped_reader,
)
from quoth.jobs.learn.round_trip import ORIGIN, keep_found, without_repeats
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.inputs import GlowInputs
from quoth.models.glow.subword_counts import load_counts
from quoth.models.pretrained import find_folder, load_tokenizer
from quoth.models.query_generator.generator import QueryGenerator
from quoth.search.dense.words import UnitWords
from quoth.search.hybrid.calibration import Calibration
from quoth.selfsupervision.pseudo_pairs import PseudoQuery
from quoth.settings.config import Config
from quoth.settings.stored import MODELS, outer_name, use_learned
from quoth.text.words import Analyser
from quoth.training.retriever.curriculum import Curriculum, StageTrained
from quoth.training.retriever.passage_set import make_passage_set, save_passage_set
from quoth.training.retriever.run_packed import (
    ENCODER,
    FACTS,
    GENERATOR,
    require_alike,
    train_packed,
)

if TYPE_CHECKING:
    from quoth.jobs.ray import ClusterHelp

PASSAGE_SET = "passages.set"
_TRAINED_QUERIES = "training.json"
_EXAMPLES = 5


class LearnStages:
    """The stages of one learning."""

    def __init__(
        self,
        context: JobContext,
        folder: JobFolder,
        *,
        device: torch.device,
        pairs: Path | None,
        queries: Path | None = None,
        remote: ClusterHelp | None = None,
        unpack: Path | None = None,
    ) -> None:
        """Work for a learning that is begun; `unpack` is what another machine trained."""
        self._context = context
        self._store = context.store
        self._folder = folder
        self._device = device
        self._pairs = pairs
        self._queries = queries
        self._remote = remote
        self._unpack = unpack
        self.plan = LearnPlan(**folder.fact("plan"))
        self.name = str(folder.fact("name"))
        base = outer_name(folder.fact("base"), context.folder)
        self.before = with_encoder(context.config, base)
        self.after = with_encoder(context.config, str(context.folder / MODELS / self.name))

    def vectors_before(self) -> dict[str, Any]:
        """Make sure that there is a search to compare with: vectors and a calibration."""
        searchers = self._searchers(self.before)
        if not searchers.is_encoded or searchers.calibration is None:
            found = self._encode(searchers, self.before)
            searchers.keep_calibration(found)
        else:
            found = searchers.calibration
            searchers.catch_up(self._store, searcher="dense", progress=self._context.progress)
        searchers.close()
        return {"calibration": found.to_record()}

    def queries(self) -> dict[str, Any]:
        """Write pseudo-queries; for the held-out documents alone where there are labelled pairs."""
        config, plan, units = self._context.config.learn, self.plan, self._units
        rows = [row for row in spread(len(units), plan.num_written) if units[row].source.whole]
        if self._pairs is not None:
            rows = [row for row in rows if units[row].is_held_out]
        on_gpu = self._device if self._device.type == "cuda" else None
        writer = QueryGenerator.load(config.generator, device=on_gpu)
        self._require_trainable(writer)
        settings: dict[str, Any] = {
            "per_passage": plan.queries_per_passage,
            "seed": config.seed,
            "temperature": config.temperature,
        }
        write_queries(
            units,
            rows,
            self._path("written"),
            one_by_one(functools.partial(writer.generate, **settings))
            if self._remote is None
            else functools.partial(
                self._remote.write, generator=config.generator, settings=settings
            ),
            progress=lambda done, total: self._context.progress("writing queries", done, total),
        )
        examples = [(row, own) for row, own in sorted(self._written.items()) if own]
        some = [examples[at] for at in spread(len(examples), _EXAMPLES)] if examples else []
        return {
            "generator": {"name": config.generator, "digest": writer.identity()["digest"]},
            "max_query_subwords": writer.config.max_query_subwords,
            "written": sum(map(len, self._written.values())),
            "examples": [[units[row].source.whole[:200], own] for row, own in some],
        }

    def _require_trainable(self, writer: QueryGenerator) -> None:
        """Refuse, before it writes for long, a generator that what follows cannot train with."""
        encoder = self.before.dense.encoder
        if self.plan.trains_encoder and self._curriculum().method != "none":
            require_alike(writer, load_tokenizer(find_folder(encoder)), encoder)

    def passages(self) -> dict[str, Any]:
        """Label the queries and tokenise everything that is trained on."""
        self._context.progress("labelling queries with BM25", 0, 0)
        start = GlowEncoder.load(self.before.dense.encoder, fast=False)
        queries = self._training_queries()
        writer, most = self._folder.found("queries"), self.plan.max_subwords
        config = replace(
            start.config,
            max_subwords=min(start.config.max_subwords, most),
            max_query_subwords=min(start.config.max_query_subwords, writer["max_query_subwords"]),
        )
        about = {
            "curriculum": asdict(self._curriculum()),
            "encoder": {"name": Path(start.name).name, "digest": start.identity()["digest"]},
            "generator": writer["generator"],
        }
        with contextlib.closing(self._searchers(self.before)) as searchers:
            words = UnitWords(self._store, searchers.lexical(syntax=False).counts, self._analyser)
            made = make_passage_set(
                [unit.fields for unit in self._units],
                queries,
                inputs=self._inputs(start, config),
                counts=words.counted(config),
                about=about,
            )
        texts = json.dumps(sorted({query.text for query in queries}), indent=0)
        write_text_atomically(self._path(_TRAINED_QUERIES), texts + "\n")
        save_passage_set(self._path(PASSAGE_SET), made)
        counts = Counter(query.kind for query in queries)
        asked = {"labelled" if self._pairs is not None else "logged": counts.pop("log", 0)}
        return {
            "passages": len(self._units),
            "kinds": dict(sorted(counts.items())) | {kind: n for kind, n in asked.items() if n},
        }

    def _inputs(self, start: GlowEncoder, config: GlowConfig) -> GlowInputs:
        """Read as the encoder does, but no more than is trained on."""
        counts = load_counts(find_folder(start.name))
        return GlowInputs(start.tokenizer, config, analyser=self._analyser, subword_counts=counts)

    def passages_alone(self) -> dict[str, Any]:
        """Count what there is to learn from, where no encoder is trained on it."""
        written = sum(map(len, self._written.values()))
        return {"passages": len(self._units), "kinds": {"generated": written}}

    def training(self) -> dict[str, Any]:
        """Train here or elsewhere, unless another machine has, and save the encoder."""
        if self._unpack is not None:
            return self._take(self._unpack)
        train = train_packed if self._remote is None else self._remote.train
        train(
            self._path(PASSAGE_SET),
            self._path("trained"),
            encoder=self.before.dense.encoder,
            device=str(self._device) if self._remote is None else self._device.type,
            tell=lambda stage, *done: self._context.progress(f"training: {stage}", *done),
        )
        return self._take(self._path("trained"))

    def _take(self, trained: Path) -> dict[str, Any]:
        """Take what another machine trained on this very passage set."""
        try:
            facts = json.loads((trained / FACTS).read_text(encoding="utf-8"))
            stages = [asdict(StageTrained.from_record(each)) for each in facts["stages"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Damaged(
                f"{trained} holds nothing that run_packed finished ({error}); run it to its end"
            ) from error
        if facts["passage_set"] != seal_file(self._path(PASSAGE_SET)).sha256:
            raise ConfigError(
                f"{trained} was trained on something else than this collection packed last; pack"
                " again with --pack, and train that"
            )
        found = GlowEncoder.load(str(trained / ENCODER), fast=False)
        found.save(self._context.folder / MODELS / self.name)
        if (writer := trained / GENERATOR).is_dir():
            shutil.copytree(writer, self._generator, dirs_exist_ok=True)
        return {"device": facts["device"], "stages": stages}

    @property
    def _generator(self) -> Path:
        """Where the query generator is kept that learned with the encoder."""
        return self._context.folder / MODELS / f"{self.name}-{GENERATOR}"

    def encode(self) -> dict[str, Any]:
        """Give every document vectors of the new encoder, beside the old ones."""
        searchers = self._searchers(self.after)
        found = self._encode(searchers, self.after)
        searchers.close()
        return {"calibration": found.to_record()}

    def judge(self) -> dict[str, Any]:
        """Search for the held-out queries with the old and the new encoder."""
        judged = self._judged
        scores = {}
        for name, stage, config in (
            ("before", "vectors before", self.before),
            ("after", "encode", self.after),
        ):
            searchers = self._searchers(config)
            found = Calibration.from_record(self._folder.found(stage)["calibration"])
            scores[name] = judge(
                searchers,
                self._store,
                judged,
                found,
                with_shipped_reader(config, self._context.folder),
                progress=self._context.progress,
                num_read=self._num_read,
            )
            searchers.close()
        trained = json.loads(self._path(_TRAINED_QUERIES).read_text(encoding="utf-8"))
        leak = check_leak(judged, scores["after"], self._store, trained, analyser=self._analyser)
        return {"scores": scores, "leak": leak, "overlaps": [i.overlap for i in judged.items]}

    @property
    def _num_read(self) -> int:
        """Queries of a kind whose hits are reranked to judge encoders; none where nobody does."""
        reason = why_not(self._context.config, num_documents=self._store.num_documents)
        return 0 if reason else FITTING_SIZES[self._device.type].judged

    def install(self) -> dict[str, Any]:
        """Let search use the new encoder if it is better, or keep it aside."""
        scores = self._folder.found("judge")["scores"]
        installed, reason = decide(
            scores["before"], scores["after"], margin=self._context.config.learn.margin
        )
        if installed:
            calibration = self._folder.found("encode")["calibration"]
            searchers = self._searchers(self.after)
            generator = self._generator.name if self._generator.is_dir() else ""
            use_learned(self._store, encoder=self.name, generator=generator)
            searchers.keep_calibration(Calibration.from_record(calibration))
            searchers.close()
        else:
            set_aside(self._context.folder, self.name)
            shutil.rmtree(self._generator, ignore_errors=True)
        return {"installed": installed, "reason": reason}

    def reranker(self) -> dict[str, Any]:
        """Fit the reranker to the collection, and use it if it is better."""
        config = with_shipped_reader(self.newest.config, self._context.folder)
        reason = why_not(config, num_documents=self._store.num_documents)
        if reason or self._pairs is not None or not self.plan.reranker_steps:
            return {"fitted": False, "reason": reason or "the plan leaves it out"}
        folder = self._context.folder / MODELS / f"{self.name}-{READER}"
        with contextlib.closing(self._searchers(config)) as searchers:
            queries = self._units, self._written, self._judged
            work = RerankerWork(searchers, self._store, config, *queries, self._context.progress)
            found = fit_reranker(work, folder, steps=self.plan.reranker_steps, device=self._device)
        self._context.note(found["reason"])
        if found["fitted"]:
            use_learned(self._store, reader=folder.name)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        return found

    def identifiers(self) -> dict[str, Any]:
        """Name documents by the pseudo-queries that find them, for generative search."""
        if self._pairs is not None:
            return {}
        written = self._written
        with contextlib.closing(self._searchers(self.newest.config)) as searchers:
            sides = (searchers.lexical(syntax=False), searchers.dense_side())
            kept = keep_found(self._units, written, sides, self._context.progress)
        distinct = without_repeats(kept)
        self._store.put_identifiers(distinct, origin=ORIGIN)
        total, count = sum(map(len, written.values())), sum(map(len, kept.values()))
        return {
            "documents": float(sum(bool(texts) for texts in distinct.values())),
            "written": float(total),
            "kept after round trip": float(count),
            "share kept": round(count / total, 4) if total else 0.0,
        }

    @property
    def newest(self) -> JobContext:
        """The desk with the encoder that search uses once a model was installed or set aside."""
        installed = self._folder.found("install")["installed"]
        return replace(self._context, config=self.after if installed else self.before)

    def _searchers(self, config: Config) -> Searchers:
        return self._context.make_searchers(self._store, config)

    def _path(self, name: str) -> Path:
        return self._folder.path / name

    @functools.cached_property
    def _units(self) -> list[Unit]:
        return units_of(self._context, self.before.dense.encoder)

    @functools.cached_property
    def _analyser(self) -> Analyser:
        return Analyser(self._context.config.analyser)

    @property
    def _written(self) -> dict[int, list[str]]:
        return read_written(self._path("written"))

    @functools.cached_property
    def _labelled(self) -> LabelledQueries:
        if self._pairs is None:
            return LabelledQueries((), ())
        with self._looking_up() as lookup:
            seed = self._context.config.learn.seed
            return read_labelled(self._pairs, self._units, lookup, seed=seed)

    @functools.cached_property
    def _judged(self) -> Judged:
        judged = self._labelled.judged
        return make_judged(self._store, self._units, self._written, judged, self._context.config)

    def _training_queries(self) -> list[PseudoQuery]:
        if self._pairs is not None:
            return list(self._labelled.training)
        config, judged = self._context.config.learn, self._judged.texts
        with self._looking_up() as lookup:
            logged = read_log(self._queries) if self._queries else ()
            return make_training_queries(
                self._units, self._written, lookup, config, judged=judged, logged=logged
            )

    @contextlib.contextmanager
    def _looking_up(self) -> Iterator[PassageLookup]:
        """Open BM25 search over units; the vectors' stage has brought it up to date."""
        with contextlib.closing(self._searchers(self.before)) as searchers:
            lexical = searchers.lexical(syntax=False)
            yield PassageLookup(self._units, lexical, analyser=self._analyser)

    def _encode(self, searchers: Searchers, config: Config) -> Calibration:
        seed, progress = config.learn.seed, self._context.progress
        return encode_all(searchers, self._store, config, seed=seed, progress=progress)

    def _curriculum(self) -> Curriculum:
        config = self._context.config.learn
        return make_curriculum(self.plan, config, is_labelled=self._pairs is not None)
