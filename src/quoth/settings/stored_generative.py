"""What the training of generative search chose, kept with the collection it was trained for.

A document that is added later is named as those that were trained on: from the same sources, by the
same query generator or by none. Only what differs from the defaults is kept, and what a user sets
goes before it.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from quoth.collection.store import Store
from quoth.jobs.pixar.plan import PixarBuildConfig
from quoth.search.generative.config import GenerativeConfig

_SETTING = "generative"
_NAMING, _TRAINING = "generative", "pixar"


def keep_generative(store: Store, config: GenerativeConfig, build: PixarBuildConfig) -> None:
    """Keep the settings of a training whose model search uses from now on."""
    # no model is kept: search takes the one that was saved last
    naming = replace(config, model="", generator=_settle(config.generator))
    training = replace(build, device=PixarBuildConfig().device)
    store.set_setting(_SETTING, {_NAMING: _chosen(naming), _TRAINING: _chosen(training)})


def kept_generative(store: Store) -> dict[str, Any]:
    """Give the settings of naming and searching that were trained with, less the defaults."""
    return _known(GenerativeConfig, _read(store).get(_NAMING, {}))


def kept_build(store: Store) -> PixarBuildConfig:
    """Give the settings of the training; the defaults where there was none."""
    return PixarBuildConfig(**_known(PixarBuildConfig, _read(store).get(_TRAINING, {})))


def _read(store: Store) -> dict[str, Any]:
    return store.setting(_SETTING) or {}


def _settle(generator: str) -> str:
    """Name a folder so that it is found from everywhere."""
    return str(Path(generator).resolve()) if Path(generator).is_dir() else generator


def _chosen(config: GenerativeConfig | PixarBuildConfig) -> dict[str, Any]:
    return {
        each.name: value
        for each in fields(config)
        if (value := getattr(config, each.name)) != each.default
    }


def _known(kind: type[GenerativeConfig | PixarBuildConfig], values: Any) -> dict[str, Any]:
    """Leave out what another version kept and this one does not have."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in dict(values).items() if name in names}
