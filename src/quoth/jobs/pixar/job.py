"""Train generative search for a collection: what `quoth train pixar` is one call on.

    names → phrases → pairs → untrained model → training → judging → install

Until `install` nothing that search uses is touched; what is installed is the trained model, or the
untrained one where training did not better it on the held-out queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quoth.artifact import seal_file
from quoth.engine.engine import Engine
from quoth.engine.models import be_quiet
from quoth.errors import ConfigError, CorpusError
from quoth.jobs.context import JobContext, open_context
from quoth.jobs.device import choose_device
from quoth.jobs.job import Job, Work, run_job
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.pixar.document_names import fingerprint
from quoth.jobs.pixar.report import GenerativeReport, JudgedKind
from quoth.jobs.pixar.stages import TRAINED, UNTRAINED, PixarStages
from quoth.jobs.pixar.start import choose_start
from quoth.jobs.pixar.writing import read_own_names
from quoth.models.pretrained import digest_weights, find_folder
from quoth.search.generative.state import FOLDER, find_model
from quoth.settings.pixar import PixarBuildConfig

if TYPE_CHECKING:
    from quoth.jobs.ray import ClusterHelp

WORK = "generative-training"
NAME = "pixar"
_FEWEST_DOCUMENTS = 2


@dataclass(frozen=True, slots=True)
class PixarRequest:
    """What one call asks for."""

    config: PixarBuildConfig
    pairs: Path | None = None
    """Labelled queries to learn from as well, and to judge by."""

    restart: bool = False
    """Begin again, whatever an earlier call left."""

    remote: ClusterHelp | None = None
    """Who trains, if not this process."""


def train_generative(
    engine: Engine, request: PixarRequest, *, note: Callable[[str], None] = lambda _text: None
) -> GenerativeReport:
    """Train generative search for a collection; interrupted, it resumes."""
    with open_context(engine, note) as context:
        return train_in_context(context, request)


def train_in_context(context: JobContext, request: PixarRequest) -> GenerativeReport:
    """Train, judge, install and report, as part of another job."""
    be_quiet()
    job = PixarJob(context, request)
    is_gone = job.folder.is_finished and find_model(context.folder, NAME) is None
    outcome = run_job(job, restart=request.restart or is_gone)
    assert outcome.report is not None
    return replace(outcome.report, is_old=outcome.is_old)


class PixarJob(Job[GenerativeReport]):
    """One training of generative search."""

    report_type = GenerativeReport
    drops_others = True

    def __init__(self, context: JobContext, request: PixarRequest) -> None:
        super().__init__(JobFolder(context.folder / WORK), note=context.note)
        self._context = context
        self._request = request
        self._device = choose_device(request.config.device)

    def settings(self) -> dict[str, Any]:
        """Return everything that decides what comes out."""
        pairs, config = self._request.pairs, self._context.config
        if pairs is not None and not pairs.is_file():
            raise CorpusError(f"{pairs} is no file; expected pairs as JSON Lines or TSV")
        own, used = asdict(self._request.config), asdict(config.generative)
        del own["device"], used["model"]
        encoder = config.dense.encoder
        start = choose_start(self._request.config, encoder=encoder, collection=self._context.folder)
        return {
            "names": fingerprint(self._context, read_own_names(self.folder.path)),
            "encoder": digest_weights(find_folder(encoder)),
            "start": start.sha256 if start else "",
            "pairs": seal_file(pairs).sha256 if pairs else "",
            "trained on": self._device.type,
            "pixar": own,
            "generative": used,
        }

    def plan(self) -> dict[str, Any]:
        """Refuse a collection without documents, and name the model."""
        count = self._context.store.num_documents
        if count < _FEWEST_DOCUMENTS:
            raise ConfigError(
                f"{self._context.folder} holds {count} documents, too few to learn from; add some"
                " with quoth add"
            )
        return {"name": NAME}

    def stages(self) -> Mapping[str, Work]:
        """Return the stages, in their order."""
        request = self._request
        return PixarStages(
            self._context,
            self.folder,
            request.config,
            device=self._device,
            pairs=request.pairs,
            remote=request.remote,
        ).in_order()

    def report(self) -> GenerativeReport:
        """Put together what the stages found."""
        folder, request = self.folder, self._request
        named, pairs, trained, installed = (
            folder.found(name) for name in ("identifiers", "pairs", "training", "install")
        )
        return GenerativeReport(
            collection=str(self._context.folder),
            model=f"{FOLDER}/{folder.fact('name')}",
            device=self._device.type,
            seed=request.config.seed,
            num_documents=self._context.store.num_documents,
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
            seconds={name: folder.seconds(name) for name in self.stages()},
            best_step=trained["best_step"],
        )
