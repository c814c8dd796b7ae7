"""The model that training starts from.

`answer.model` decides: one that has learned to quote is trained on, with the settings it was saved
with; any other causal model is given adapters and a phrase encoder. `--set model.base=NAME` starts
anew from a base, whatever answers now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from quoth.answer.abstain import Abstention, open_abstention
from quoth.answer.config import SHIPPED
from quoth.artifact import FILE_NAME, seal_file
from quoth.engine.language_model import find_base, find_trained, template_of
from quoth.engine.models import be_quiet
from quoth.errors import ConfigError
from quoth.jobs.quoting.settings import DynamicSettings
from quoth.models.digests import cache_folder
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, open_dynamic_lm
from quoth.models.dynamic_lm.files import SavedDynamicLM, read_saved
from quoth.models.language_models import EMBEDDED_NAME, find_language_model

_BASE, _TEMPLATE = "model.base", "model.template"


@dataclass(frozen=True, slots=True)
class StartingModel:
    """A model to train, and what it is; `folder` is None where it has not learned to quote."""

    name: str
    model: DynamicLM
    digest: str
    folder: Path | None = None
    abstention: Abstention | None = None
    """Its calibration, where it has one."""


def open_start(
    name: str, settings: DynamicSettings, *, note: Callable[[str], None]
) -> StartingModel:
    """Open what `answer.model` names, or start from a base."""
    be_quiet()
    if _BASE in settings.given:
        return _start(settings.model.base, settings)
    trained = find_trained(name)
    if trained is not None:
        return _open_trained(name, trained, settings)
    if name == SHIPPED:
        note(f"the weights of {SHIPPED!r} are not installed; starting from {EMBEDDED_NAME}")
        name = EMBEDDED_NAME
    return _start(name, settings)


def _open_trained(name: str, folder: Path, settings: DynamicSettings) -> StartingModel:
    saved = read_saved(folder)
    _require_same(folder, saved, settings)
    model = open_dynamic_lm(folder, base=find_base(saved), device=settings.device)
    abstention = open_abstention(folder)
    digest = seal_file(folder / FILE_NAME).sha256
    return StartingModel(name, model, digest, folder, abstention)


def _require_same(folder: Path, saved: SavedDynamicLM, settings: DynamicSettings) -> None:
    """Refuse settings of the model that are not those it was saved with."""
    wanted = [
        (name.partition(".")[2], name) for name in settings.given if name.startswith("model.")
    ]
    differing = [
        f"{name} is {getattr(saved.config, key)}, not {getattr(settings.model, key)}"
        for key, name in sorted(wanted)
        if getattr(saved.config, key) != getattr(settings.model, key)
    ]
    if differing:
        raise ConfigError(
            f"training starts from {folder}, where {', '.join(differing)}; leave that out, or start"
            f" anew with --set {_BASE}={saved.source.name}"
        )


def _start(name: str, settings: DynamicSettings) -> StartingModel:
    folder = find_language_model(name, cache=cache_folder())
    base = str(Path(name).resolve()) if Path(name).is_dir() else name  # found from everywhere
    config = replace(settings.model, base=base)
    if _TEMPLATE not in settings.given:
        config = replace(config, template=template_of(folder))
    seed = settings.training.seed
    device = settings.device
    model = DynamicLM.start(folder, config=config, device=device, dtype=torch.float32, seed=seed)
    return StartingModel(name, model, model.source.digest)
