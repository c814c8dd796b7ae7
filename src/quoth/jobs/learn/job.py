"""Learn to search a collection without labels: what `quoth learn` is one call on.

    documents → pseudo-queries → passage set → training → vectors → judging → install or set aside

Every stage is finished once and noted (`jobs/job_folder.py`), so the same call goes on after an
interruption, and gives the report that an uninterrupted one would have given. Changed documents or
settings begin anew. Until `install` nothing that search uses is touched, and a model that is not
better on the held-out queries never is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from quoth.artifact import seal_file, write_text_atomically
from quoth.collection.schema import require_collection
from quoth.collection.store import FILE_NAME, Store
from quoth.engine.engine import Engine
from quoth.errors import ConfigError, CorpusError
from quoth.jobs.context import JobContext
from quoth.jobs.device import choose_device
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn.plan import LearnRequest, describe_plan, make_plan
from quoth.jobs.learn.stages import Stages, units_of
from quoth.jobs.pixar.job import train_generative
from quoth.jobs.pixar.report import GenerativeReport
from quoth.jobs.remote import RemoteRunner
from quoth.jobs.report.page import write_page
from quoth.jobs.report.report import LearningReport
from quoth.jobs.report.summary import GENERATIVE, ORDER, order_of, summarise
from quoth.models.pretrained import digest_weights, find_folder
from quoth.settings.pixar import PixarBuildConfig
from quoth.settings.stored import inner_name, next_name, outer_name
from quoth.training.retriever.curriculum import peak_megabytes

LEARNING = "learning"
_LEAST_DOCUMENTS = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: a report, or a packed file to train elsewhere."""

    report: LearningReport | None
    page: Path | None = None
    packed: Path | None = None
    is_old: bool = False
    """Whether this is the report of an earlier call with the same settings and documents."""

    generative: GenerativeReport | None = None
    """Where generative search alone was trained: its report."""


def learn(
    engine: Engine, request: LearnRequest, *, note: Callable[[str], None] = lambda _text: None
) -> Outcome:
    """Learn to search the documents of a collection better; interrupted, it resumes."""
    require_collection(engine.folder, FILE_NAME)
    with engine.writing() as (store, config):
        context = JobContext(
            engine.folder, store, config, engine.make_searchers, engine.progress, note
        )
        return learn_collection(context, request)


def learn_collection(context: JobContext, request: LearnRequest) -> Outcome:
    """Learn, judge, install if better, and report; goes on where an earlier call stopped."""
    if request.generative is not None:
        found = train_generative(
            context,
            request.generative,
            pairs=request.pairs,
            restart=request.restart,
            remote=request.remote,
        )
        return Outcome(None, is_old=found.is_old, generative=found)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    folder = JobFolder(context.folder / LEARNING)
    device = choose_device(context.config.learn.device)
    if request.unpack is not None:
        _require_packed(folder, context)
    elif not _goes_on(folder, context, request):
        _begin(folder, context, request)
    if folder.is_finished:
        return Outcome(_read_report(folder), folder.page, is_old=True)
    pairs = _pairs_of(folder, request)
    stages = Stages(context, folder, device=device, pairs=pairs, remote=request.remote)
    for name in ("vectors before", "queries", "passage set"):
        _do(folder, name, _work(stages, name))
    if request.pack is not None:
        request.pack.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder.passage_set, request.pack)
        return Outcome(None, packed=request.pack)
    trained = request.unpack
    train = stages.train if trained is None else lambda: stages.unpack(trained)
    _do(folder, "training", train)
    for name in order_of(folder)[ORDER.index("training") + 1 :]:
        _do(folder, name, _work(stages, name))
    return Outcome(_report(folder, context), folder.page)


def _work(stages: Stages, name: str) -> Callable[[], dict[str, Any]]:
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "vectors before": stages.vectors_before,
        "queries": stages.queries,
        "passage set": stages.passages,
        "encode": stages.encode,
        "judge": stages.judge,
        "install": stages.install,
        "identifiers": stages.identifiers,
        GENERATIVE: lambda: _train_generative(stages.newest, stages.remote),
    }
    return work[name]


def _train_generative(context: JobContext, remote: RemoteRunner | None) -> dict[str, Any]:
    """Train generative search with the encoder that is in use now."""
    learn = context.config.learn
    config = PixarBuildConfig(
        minutes=learn.generative_minutes, device=learn.device, seed=learn.seed
    )
    return train_generative(context, config, remote=remote).values()


def _do(folder: JobFolder, name: str, work: Callable[[], dict[str, Any]]) -> None:
    """Do a stage unless it is finished."""
    if folder.finished(name) is None:
        with folder.clock(name):
            found = work()
        folder.note_peak(name, peak_megabytes())
        folder.finish(name, found)


# --- beginning and going on ----------------------------------------------------------------------


def _goes_on(folder: JobFolder, context: JobContext, request: LearnRequest) -> bool:
    """Whether what is on disk belongs to this very call."""
    if not folder.is_begun or request.restart:
        return False
    differing = folder.differences(_settings(context, request, base=_base(folder, context)))
    if differing and not folder.is_finished:
        context.note(f"an unfinished learning is dropped, as this differs: {', '.join(differing)}")
    return not differing


def _begin(folder: JobFolder, context: JobContext, request: LearnRequest) -> None:
    """Plan, and note everything that decides what comes out."""
    num_documents = context.store.num_documents
    if num_documents < _LEAST_DOCUMENTS:
        raise ConfigError(
            f"{context.folder} holds {num_documents} documents, too few to learn from; add some:"
            f" {_LEAST_DOCUMENTS} at the least, hundreds to gain anything"
        )
    base = inner_name(context.config.dense.encoder, context.folder)
    settings = _settings(context, request, base=base)
    plan = make_plan(
        len(units_of(context, context.config.dense.encoder)),
        context.config.learn,
        device=settings["trained on"],
        cores=torch.get_num_threads(),
        is_packed=request.pack is not None,
    )
    context.note(describe_plan(plan))
    facts = {
        "base": base,
        "name": next_name(context.folder),
        "plan": asdict(plan),
        "pairs": str(request.pairs.resolve()) if request.pairs else "",
    }
    folder.begin(settings, facts)


def _settings(context: JobContext, request: LearnRequest, *, base: str) -> dict[str, Any]:
    """Return everything that decides what comes out, as JSON gives it back."""
    if request.pairs is not None and not request.pairs.is_file():
        raise CorpusError(f"{request.pairs} is no file; expected pairs as JSON Lines or TSV")
    learn = asdict(context.config.learn)
    device = choose_device(learn.pop("device")).type
    if request.pack is not None and context.config.learn.device == "auto":
        device = "cuda"  # packing is for a machine with a GPU, unless told otherwise
    content = {
        "documents": _fingerprint(context.store),
        "encoder": digest_weights(find_folder(outer_name(base, context.folder))),
        "pairs": seal_file(request.pairs).sha256 if request.pairs else "",
        "trained on": device,
        "learn": learn,
    }
    found: dict[str, Any] = json.loads(json.dumps(content))
    return found


def _fingerprint(store: Store) -> str:
    """Name the documents as they are; identifiers, which learning adds, make no difference."""
    content = [sorted(store.live_rows()), store.all_docids()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _base(folder: JobFolder, context: JobContext) -> str:
    """Name the encoder to start from: once its own model is installed, still the one before."""
    now = inner_name(context.config.dense.encoder, context.folder)
    is_own = Path(now).name == folder.fact("name")
    return str(folder.fact("base")) if is_own else now


def _require_packed(folder: JobFolder, context: JobContext) -> None:
    """Make sure that the collection is as it was when it was packed."""
    if not folder.is_begun or folder.finished("passage set") is None:
        raise ConfigError(
            f"{context.folder} has packed nothing that could be unpacked; run quoth learn"
            f" {context.folder} --pack FILE first"
        )
    if folder.settings["documents"] != _fingerprint(context.store):
        raise ConfigError(
            f"the documents of {context.folder} have changed since they were packed; pack again"
        )


def _pairs_of(folder: JobFolder, request: LearnRequest) -> Path | None:
    kept = str(folder.fact("pairs"))
    return request.pairs or (Path(kept) if kept else None)


# --- reporting -----------------------------------------------------------------------------------


def _report(folder: JobFolder, context: JobContext) -> LearningReport:
    """Write the report, which also ends the learning; then drop what only training needed."""
    report = summarise(
        folder,
        collection=context.folder.name,
        num_documents=context.store.num_documents,
        seed=int(folder.settings["learn"]["seed"]),
    )
    write_page(report, folder.page)
    content: Mapping[str, Any] = report.to_record()
    write_text_atomically(folder.report, json.dumps(content, indent=1) + os.linesep)
    shutil.rmtree(folder.stages, ignore_errors=True)
    return report


def _read_report(folder: JobFolder) -> LearningReport:
    return LearningReport.from_record(json.loads(folder.report.read_text(encoding="utf-8")))
