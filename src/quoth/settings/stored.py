"""The settings stored in a collection: how it was made, and what was trained for it.

*Made with*: sections that shape what is on disk. *Learned*: the encoder that search uses, the
reader and the query generator that rerank, and whether the best hits are looked at a second time. A
folder inside the collection is named by its place in
it, so that both can be moved together.
*Generative*: a document that is added later is named as those that were trained on, from the same
sources, by the same query generator or by none; only what differs from the defaults is stored.
*Sources*: the folders that the collection is kept in step with, and how they are read.
*Answer*: the language model that was trained and installed. What a user sets goes before all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from quoth.artifact import seal_folder
from quoth.collection.sources import read_sources
from quoth.collection.store import Store
from quoth.search.generative.config import GenerativeConfig
from quoth.search.rerank_config import SECOND_LOOK, RerankConfig
from quoth.settings.pixar import PixarBuildConfig
from quoth.text.folders.config import FolderConfig
from quoth.text.readers.config import ReaderConfig

ANSWER = "answer"
"""Setting of a store: the language model that answers."""

_MODEL = "model"

GENERATIVE = "generative"
"""Setting of a store: how generative search was trained."""

_NAMING, _TRAINING = "generative", "pixar"

_BEFORE_SENTENCES: dict[str, Any] = {"sentences": 0}

MODELS = "models"
ASIDE = ".aside"
LEARNED = "learned"
"""Setting of a store: the models that search uses."""

_SEALED, _LOOKS = "sealed", "second look"
_LEARNED_NAME = re.compile(r"learned-(\d+)")


def stored_settings(store: Store, folder: Path) -> tuple[dict[str, dict[str, Any]], ...]:
    """Return the settings kept with a collection: what it was made with, and how it was trained."""
    answering = {"answer": stored_answer(store, folder)}
    return (
        store.setting("config") or {},
        _stored_learned(store, folder),
        {"generative": stored_generative(store)},
        known_reading(read_sources(store).settings),
        answering,
    )


def use_learned(store: Store, **names: str) -> None:
    """Seal models of the collection, and let search use them: encoder, generator, reader.

    What is not named stays as it is; an empty name takes a model out of use.
    """
    old = store.setting(LEARNED) or {}
    new = {kind: f"{MODELS}/{name}" for kind, name in names.items() if name}
    for name in new.values():
        seal_folder(store.path.parent / name)
    kept = {kind: own for kind, own in (old | new).items() if names.get(kind) != ""}
    sealed = {*old.get(_SEALED, ()), *new.values()} & set(_models(kept).values())
    store.set_setting(LEARNED, kept | {_SEALED: sorted(sealed)})


def use_second_look(store: Store, *, wanted: bool) -> None:
    """Let search look at its best hits a second time, or no longer."""
    kept = dict(store.setting(LEARNED) or {})
    old = kept.pop(_LOOKS, None)
    new = kept | {_LOOKS: SECOND_LOOK} if wanted else kept
    if old != new.get(_LOOKS):
        store.set_setting(LEARNED, new)


def sealed_models(store: Store, folder: Path) -> tuple[Path, ...]:
    """List the folders of models in use whose files were sealed when they were installed."""
    return tuple(folder / name for name in (store.setting(LEARNED) or {}).get(_SEALED, ()))


def _stored_learned(store: Store, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of what was learned: who encodes, and who reranks."""
    kept = store.setting(LEARNED) or {}
    found = {kind: str(folder / name) for kind, name in _models(kept).items()}
    rerank: dict[str, Any] = _known(RerankConfig, kept.get(_LOOKS, {}))
    rerank |= {kind: found[kind] for kind in ("generator", "reader") if kind in found}
    dense = {"dense": {"encoder": found["encoder"]}} if "encoder" in found else {}
    return dense | ({"rerank": rerank} if rerank else {})


def _models(kept: Mapping[str, Any]) -> dict[str, str]:
    """Return the models among what was learned, by what they are for."""
    return {kind: name for kind, name in kept.items() if kind not in (_SEALED, _LOOKS)}


def inner_name(encoder: str, folder: Path) -> str:
    """Name an encoder as it is kept: one inside the collection by its place in it."""
    path = Path(encoder)
    return f"{MODELS}/{path.name}" if path.parent == folder / MODELS else encoder


def outer_name(encoder: str, folder: Path) -> str:
    """Undo `inner_name`."""
    return str(folder / encoder) if (folder / MODELS) == (folder / encoder).parent else encoder


def next_name(folder: Path) -> str:
    """Find a name that no model of the collection has, kept aside or not."""
    models = folder / MODELS
    taken = [_LEARNED_NAME.match(each.name) for each in models.iterdir()] if models.is_dir() else []
    return f"learned-{1 + max([0, *(int(each[1]) for each in taken if each)])}"


def store_generative(store: Store, config: GenerativeConfig, build: PixarBuildConfig) -> None:
    """Keep the settings of a training whose model search uses from now on."""
    # no model is kept: search takes the one that was saved last
    naming = replace(config, model="", generator=_absolute(config.generator))
    training = replace(build, device=PixarBuildConfig().device)
    named = _chosen(naming) | {each: getattr(naming, each) for each in _BEFORE_SENTENCES}
    store.set_setting(GENERATIVE, {_NAMING: named, _TRAINING: _chosen(training)})


def stored_generative(store: Store) -> dict[str, Any]:
    """Return the settings of naming and searching that were trained with, less the defaults.

    What was trained before sentences named documents is searched as it was then.
    """
    kept = _read(store)
    before = _BEFORE_SENTENCES if kept else {}
    return dict(before) | _known(GenerativeConfig, kept.get(_NAMING, {}))


def stored_build(store: Store) -> PixarBuildConfig:
    """Return the settings of the training; the defaults where there was none."""
    return PixarBuildConfig(**_known(PixarBuildConfig, _read(store).get(_TRAINING, {})))


def _read(store: Store) -> dict[str, Any]:
    return store.setting(GENERATIVE) or {}


def _absolute(generator: str) -> str:
    """Name a folder so that it is found from everywhere."""
    return str(Path(generator).resolve()) if Path(generator).is_dir() else generator


def _chosen(config: GenerativeConfig | PixarBuildConfig) -> dict[str, Any]:
    return {
        each.name: value
        for each in fields(config)
        if (value := getattr(config, each.name)) != each.default
    }


def known_reading(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings that folders are read with, as this version knows them."""
    kinds = {"readers": ReaderConfig, "sync": FolderConfig}
    return {name: _known(kind, settings.get(name, {})) for name, kind in kinds.items()}


def _known(kind: type, values: Any) -> dict[str, Any]:
    """Leave out what another version kept and this one does not have."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in dict(values).items() if name in names}


def store_answer(store: Store, model: Path) -> None:
    """Let a collection answer with a model; a relative path starts at the collection."""
    store.set_setting(ANSWER, answer_setting(model))


def answer_setting(model: Path) -> dict[str, str]:
    """Return the value of the setting that names what answers."""
    return {_MODEL: model.as_posix()}


def stored_answer(store: Store, folder: Path) -> dict[str, str]:
    """Return the settings of answering that are kept with a collection; none where none are."""
    found = store.setting(ANSWER)
    return {_MODEL: str(folder / found[_MODEL])} if found else {}
