"""Learn to search a collection without labels: what `quoth learn` is one call on.

    documents → pseudo-queries → passage set → training → vectors → judging → install or set aside

Until `install` nothing that search uses is touched, and a model that is not better on the held-out
queries never is installed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from quoth.artifact import seal_file
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.models import be_quiet
from quoth.engine.reranking import find_reranker, identify_reranker
from quoth.errors import ConfigError, CorpusError
from quoth.jobs.context import JobContext, open_context
from quoth.jobs.device import choose_device
from quoth.jobs.job import Job, Work, run_job
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn.plan import LearnRequest, describe_plan, make_plan
from quoth.jobs.learn.queries import units_of
from quoth.jobs.learn.query_log import seal_log
from quoth.jobs.learn.reranker import look_twice, why_not, with_shipped_reader
from quoth.jobs.learn.stages import PASSAGE_SET, LearnStages
from quoth.jobs.pixar.job import PixarRequest, train_in_context
from quoth.jobs.report.page import write_page
from quoth.jobs.report.report import LearningReport
from quoth.jobs.report.summary import GENERATIVE, order_of, summarise
from quoth.models.pretrained import digest_weights, find_folder
from quoth.settings.pixar import PixarBuildConfig
from quoth.settings.stored import inner_name, next_name, outer_name

LEARNING = "learning"
PAGE = "report.html"
_LEAST_DOCUMENTS = 10


@dataclass(frozen=True, slots=True)
class LearnOutcome:
    """What a call came to: a report, or a packed file to train elsewhere."""

    report: LearningReport | None
    page: Path | None = None
    packed: Path | None = None
    is_old: bool = False
    """Whether this is the report of an earlier call with the same settings and documents."""


def learn(
    engine: Engine, request: LearnRequest, *, note: Callable[[str], None] = lambda _text: None
) -> LearnOutcome:
    """Learn to search the documents of a collection better; interrupted, it resumes."""
    be_quiet()
    with open_context(engine, note) as context:
        job = LearnJob(context, request)
        outcome = run_job(
            job,
            restart=request.restart and request.unpack is None,
            before="training" if request.pack is not None else "",
        )
    folder = job.folder.path
    if outcome.report is None:
        assert request.pack is not None
        request.pack.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / PASSAGE_SET, request.pack)
        return LearnOutcome(None, packed=request.pack)
    return LearnOutcome(outcome.report, folder / PAGE, is_old=outcome.is_old)


class LearnJob(Job[LearningReport]):
    """One learning."""

    report_type = LearningReport
    drops_others = True

    def __init__(self, context: JobContext, request: LearnRequest) -> None:
        super().__init__(JobFolder(context.folder / LEARNING), note=context.note)
        self._context = context
        self._request = request
        self._device = choose_device(context.config.learn.device)

    def settings(self) -> Mapping[str, Any]:
        """Return everything that decides what comes out; once packed, that stays as it was."""
        context, request = self._context, self._request
        if request.unpack is not None:
            self._require_packed()
            return self.folder.settings
        if request.pairs is not None and not request.pairs.is_file():
            raise CorpusError(f"{request.pairs} is no file; expected pairs as JSON Lines or TSV")
        asked = {"queries": seal_log(request.queries)} if request.queries else {}
        reader = find_reranker(with_shipped_reader(context.config, context.folder).rerank)
        learn = asdict(context.config.learn)
        del learn["device"]
        return {
            "documents": _fingerprint(context.store),
            "encoder": digest_weights(find_folder(outer_name(self._base(), context.folder))),
            "pairs": seal_file(request.pairs).sha256 if request.pairs else "",
            "trained on": self._trained_on(),
            "learn": learn,
            "reader": identify_reranker(reader) if reader and learn["reranker"] else "",
            **asked,
        }

    def plan(self) -> dict[str, Any]:
        """Plan what fits into the time, and tell the user."""
        context, request = self._context, self._request
        num_documents = context.store.num_documents
        if num_documents < _LEAST_DOCUMENTS:
            raise ConfigError(
                f"{context.folder} holds {num_documents} documents, too few to learn from; add"
                f" some: {_LEAST_DOCUMENTS} at the least, hundreds to gain anything"
            )
        encoder = context.config.dense.encoder
        plan = make_plan(
            len(units_of(context, encoder)),
            replace(context.config.learn, reranker=self._fits_reranker()),
            device=self._trained_on(),
            cores=torch.get_num_threads(),
            is_packed=request.pack is not None,
            has_queries=request.queries is not None,
        )
        context.note(describe_plan(plan))
        return {
            "base": inner_name(encoder, context.folder),
            "name": next_name(context.folder),
            "plan": asdict(plan),
            "pairs": str(request.pairs.resolve()) if request.pairs else "",
            **({"queries": str(request.queries.resolve())} if request.queries else {}),
        }

    def stages(self) -> Mapping[str, Work]:
        """Return the stages, in their order."""
        request = self._request
        stages = LearnStages(
            self._context,
            self.folder,
            device=self._device,
            pairs=request.pairs or self.folder.noted_path("pairs"),
            queries=request.queries or self.folder.noted_path("queries"),
            remote=request.remote,
            unpack=request.unpack,
        )
        work: dict[str, Work] = {
            "vectors before": stages.vectors_before,
            "queries": stages.queries,
            "passage set": stages.passages,
            "training": stages.training,
            "encode": stages.encode,
            "judge": stages.judge,
            "install": stages.install,
            "reranker": functools.partial(self._rerank, stages),
            "identifiers": stages.identifiers,
            GENERATIVE: lambda: self._train_generative(stages.newest),
        }
        if not stages.plan.trains_encoder:
            work |= _untrained(stages, device=self._device.type)
        return {name: work[name] for name in order_of(self.folder)}

    def report(self) -> LearningReport:
        """Put together what the stages found, and write the page."""
        report = summarise(
            self.folder,
            collection=self._context.folder.name,
            num_documents=self._context.store.num_documents,
            seed=int(self.folder.settings["learn"]["seed"]),
        )
        write_page(report, self.folder.path / PAGE)
        return report

    def _rerank(self, stages: LearnStages) -> dict[str, Any]:
        """Fit the reranker, and let search look at its best hits a second time."""
        found = stages.reranker()
        context = self._context
        return found | {"second look": look_twice(context.store, context.config, note=context.note)}

    def _train_generative(self, context: JobContext) -> dict[str, Any]:
        """Train generative search with the encoder that is in use now."""
        learn = context.config.learn
        config = PixarBuildConfig(
            minutes=learn.generative_minutes, device=learn.device, seed=learn.seed
        )
        request = PixarRequest(config, remote=self._request.remote)
        return dict(train_in_context(context, request).values())

    def _fits_reranker(self) -> bool:
        """Whether there is a reranker to fit; labelled pairs train the encoder alone."""
        config = with_shipped_reader(self._context.config, self._context.folder)
        reason = why_not(config, num_documents=self._context.store.num_documents)
        return not reason and self._request.pairs is None

    def _trained_on(self) -> str:
        """Name the device: packing is for a machine with a GPU, unless told otherwise."""
        is_elsewhere = self._request.pack is not None
        if is_elsewhere and self._context.config.learn.device == "auto":
            return "cuda"
        return self._device.type

    def _base(self) -> str:
        """Name the encoder to start from: once its own model is installed, still the one before."""
        now = inner_name(self._context.config.dense.encoder, self._context.folder)
        is_own = self.folder.is_begun and Path(now).name == self.folder.fact("name")
        return str(self.folder.fact("base")) if is_own else now

    def _require_packed(self) -> None:
        """Make sure that the collection is as it was when it was packed."""
        collection = self._context.folder
        if self.folder.finished("passage set") is None:
            raise ConfigError(
                f"{collection} has packed nothing that could be unpacked; run quoth learn"
                f" {collection} --pack FILE first"
            )
        if self.folder.settings["documents"] != _fingerprint(self._context.store):
            raise ConfigError(
                f"the documents of {collection} have changed since they were packed; pack again"
            )


def _untrained(stages: LearnStages, *, device: str) -> dict[str, Work]:
    """Return what the encoder's stages come to where it is not trained."""
    nothing: dict[str, dict[str, Any]] = {
        "training": {"device": device, "stages": []},
        "encode": {},
        "judge": {"scores": {"before": {}, "after": {}}, "leak": {}, "overlaps": []},
        "install": {"installed": False, "reason": stages.plan.note},
    }
    work: dict[str, Work] = {name: functools.partial(dict, each) for name, each in nothing.items()}
    return work | {"passage set": stages.passages_alone}


def _fingerprint(store: Store) -> str:
    """Name the documents as they are; identifiers, which learning adds, make no difference."""
    content = [sorted(store.live_rows()), store.all_docids()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
