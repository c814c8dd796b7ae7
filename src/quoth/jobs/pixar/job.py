"""Train generative search for a collection: what `quoth train pixar` is one call on.

    names → phrases → pairs → untrained model → training → judging → install

Every stage is finished once and noted, as in `quoth learn` (`jobs/job_folder.py`), training has
checkpoints besides, so the same call goes on after an interruption. Changed documents, identifiers
or settings begin anew. Until `install` nothing that search uses is touched; what is installed is
the trained model, or the untrained one where training did not better it on the held-out queries.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from transformers.utils import logging

from quoth.artifact import seal_file, write_text_atomically
from quoth.errors import ConfigError, CorpusError
from quoth.jobs.context import JobContext
from quoth.jobs.device import choose_device
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.pixar.document_names import fingerprint
from quoth.jobs.pixar.report import GenerativeReport, JudgedKind
from quoth.jobs.pixar.stages import ORDER, TRAINED, UNTRAINED, BuildStages
from quoth.jobs.remote import RemoteRunner
from quoth.models.pretrained import digest_weights, find_folder
from quoth.search.generative.state import FOLDER, find_model
from quoth.settings.pixar import PixarBuildConfig
from quoth.training.retriever.curriculum import peak_megabytes

WORK = "generative-training"
NAME = "pixar"
_FEWEST_DOCUMENTS = 2


def train_generative(
    context: JobContext,
    config: PixarBuildConfig,
    *,
    pairs: Path | None = None,
    restart: bool = False,
    remote: RemoteRunner | None = None,
) -> GenerativeReport:
    """Train, judge, install and report; goes on where an earlier call stopped."""
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    device = choose_device(config.device)
    folder = JobFolder(context.folder / WORK)
    settings = _settings(context, config, device=device.type, pairs=pairs)
    if restart or not _goes_on(folder, context, settings):
        _begin(folder, context, settings)
    if folder.is_finished:
        return replace(_read_report(folder), is_old=True)
    stages = BuildStages(context, folder, config, device=device, pairs=pairs, remote=remote)
    for name in ORDER:
        if folder.finished(name) is None:
            with folder.clock(name):
                found = _work(stages, name)()
            folder.note_peak(name, peak_megabytes())
            folder.finish(name, found)
    return _report(folder, context, device=device.type, seed=config.seed)


def _work(stages: BuildStages, name: str) -> Callable[[], dict[str, Any]]:
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "identifiers": stages.identifiers,
        "phrases": stages.phrases,
        "pairs": stages.pairs,
        "start": stages.start,
        "training": stages.training,
        "judge": stages.judge,
        "install": stages.install,
    }
    return work[name]


# --- beginning and going on ----------------------------------------------------------------------


def _goes_on(folder: JobFolder, context: JobContext, settings: Mapping[str, Any]) -> bool:
    """Whether what is on disk belongs to this very call."""
    if not folder.is_begun:
        return False
    before = dict(folder.settings)
    if (done := folder.finished("identifiers")) is not None:
        before["names"] = done["fingerprint"]  # this training has written some itself
    differing = sorted(name for name in settings if before.get(name) != settings[name])
    if not differing and folder.is_finished:
        return find_model(context.folder, NAME) is not None
    if differing and not folder.is_finished:
        context.note(f"an unfinished training is dropped, as this differs: {', '.join(differing)}")
    return not differing


def _begin(folder: JobFolder, context: JobContext, settings: Mapping[str, Any]) -> None:
    if context.store.num_documents < _FEWEST_DOCUMENTS:
        raise ConfigError(
            f"{context.folder} holds {context.store.num_documents} documents, too few to learn"
            " from; add some with quoth add"
        )
    folder.begin(settings, {"name": NAME})


def _settings(
    context: JobContext, config: PixarBuildConfig, *, device: str, pairs: Path | None
) -> dict[str, Any]:
    """Return everything that decides what comes out, as JSON gives it back."""
    if pairs is not None and not pairs.is_file():
        raise CorpusError(f"{pairs} is no file; expected pairs as JSON Lines or TSV")
    own, used = asdict(config), asdict(context.config.generative)
    del own["device"], used["model"]
    content = {
        "names": fingerprint(context),
        "encoder": digest_weights(find_folder(context.config.dense.encoder)),
        "pairs": seal_file(pairs).sha256 if pairs else "",
        "trained on": device,
        "pixar": own,
        "generative": used,
    }
    found: dict[str, Any] = json.loads(json.dumps(content))
    return found


# --- reporting -----------------------------------------------------------------------------------


def _report(folder: JobFolder, context: JobContext, *, device: str, seed: int) -> GenerativeReport:
    """Write the report, which also ends the training; then drop what only training needed."""
    named, pairs, trained, installed = (
        folder.found(name) for name in ("identifiers", "pairs", "training", "install")
    )
    report = GenerativeReport(
        collection=str(context.folder),
        model=f"{FOLDER}/{folder.fact('name')}",
        device=device,
        seed=seed,
        num_documents=context.store.num_documents,
        num_unnamed=named["unnamed"],
        num_identifiers=named["names"],
        num_phrases=folder.found("phrases")["phrases"],
        num_slots=pairs["slots"],
        mean_length=pairs["mean_length"],
        num_inputs=pairs["inputs"],
        steps=trained["steps"],
        batch_size=pairs["batch_size"],
        first_loss=trained["first_loss"],
        last_loss=trained["last_loss"],
        method=installed["method"],
        judged=tuple(
            JudgedKind(kind, own["queries"], own["lexical"], own[UNTRAINED], own[TRAINED])
            for kind, own in folder.found("judge").items()
        ),
        installed=installed["installed"],
        megabytes=installed["megabytes"],
        seconds={name: folder.seconds(name) for name in ORDER},
        best_step=trained["best_step"],
    )
    content = json.dumps(report.to_record(), indent=1)
    write_text_atomically(folder.report, content + os.linesep)
    for path in folder.path.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
    return report


def _read_report(folder: JobFolder) -> GenerativeReport:
    return GenerativeReport.from_record(json.loads(folder.report.read_text(encoding="utf-8")))
