"""Let all shards search by a model that was trained on a sample of their documents.

The model is linked into every shard beside its place, and every document of the shard named with it
while search goes on; then all shards use it at once (see `installing.py`). Documents outside of the
sample are named as those that are added later: by their titles, sentences and the query generator.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from quoth.artifact import save_artifact, seal_folder
from quoth.collection.shards import ShardSet
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels, missing_neural
from quoth.engine.naming import name_documents
from quoth.engine.writing import locked
from quoth.search.generative.config import NO_GENERATOR
from quoth.search.generative.state import (
    FOLDER,
    TRIE,
    UNFINISHED,
    find_model,
    next_number,
    read_model,
)
from quoth.search.searcher import Progress
from quoth.settings.config import Config, Values
from quoth.settings.stored import GENERATIVE
from quoth.shards.engine import ShardedEngine
from quoth.shards.installing import begin_installing, finish_installing
from quoth.shards.linking import link_folder
from quoth.shards.writing import ShardWriter


def install_generative(
    shards: ShardSet, sample: Path, *, settings: Sequence[Values], progress: Progress
) -> bool:
    """Let all shards use the model of a sample, if it has one; tells whether it is another."""
    made = find_model(sample, "")
    if made is None or _is_in_use(shards, sample, made):
        return False
    with Engine.open(sample, settings=settings) as engine:
        config = engine.config
    with locked(shards.folder, wait_seconds=config.collection.wait_seconds):
        with contextlib.closing(Store.open(sample)) as trained:
            _link_beside(shards, made)
            _name_all(shards, made.name, trained, config, progress)
            kept = {GENERATIVE: trained.setting(GENERATIVE)}
        begin_installing(shards, kept, folders=[f"{FOLDER}/{made.name}"])
        finish_installing(shards)
    with ShardedEngine.open(shards.folder, settings=settings, progress=progress) as whole:
        whole.exchange()  # by which every process that has opened a shard sees it
    return True


def bring_back_identifiers(
    shards: ShardSet, sample: Path, *, settings: Sequence[Values], progress: Progress
) -> None:
    """Give the documents of all shards the identifiers that were written for them in a sample."""
    written: dict[str, dict[str, list[str]]] = {}
    with contextlib.closing(Store.open(sample)) as store:
        for docid, row in store.rows(store.all_docids()).items():
            for origin, texts in store.identifiers_by_origin(row).items():
                written.setdefault(origin, {})[docid] = texts
    with ShardedEngine.open(shards.folder, settings=settings, progress=progress) as engine:
        new = {origin: _differing(shards, own, origin) for origin, own in written.items()}
        if any(new.values()):
            with engine.writing() as (writer, _config):
                _put(writer, new)


def _put(writer: ShardWriter, by_origin: dict[str, dict[str, list[str]]]) -> None:
    for origin, texts_by_docid in by_origin.items():
        writer.put_identifiers(texts_by_docid, origin=origin)


def _differing(
    shards: ShardSet, texts_by_docid: dict[str, list[str]], origin: str
) -> dict[str, list[str]]:
    """Leave out what the documents have already, as each put is a change."""
    new: dict[str, list[str]] = {}
    for path in shards.shards:
        with contextlib.closing(Store.open(path)) as store:
            for docid, row in store.rows(list(texts_by_docid)).items():
                if store.identifiers_by_origin(row).get(origin) != texts_by_docid[docid]:
                    new[docid] = texts_by_docid[docid]
    return new


def _is_in_use(shards: ShardSet, sample: Path, made: Path) -> bool:
    """Whether every shard has this model, told by the seals of its parts, and its settings."""
    wanted = read_model(made)
    with contextlib.closing(Store.open(sample)) as store:
        trained = store.setting(GENERATIVE)
    for path in shards.shards:
        found = read_model(path / FOLDER / made.name)
        with contextlib.closing(Store.open(path)) as store:
            same = wanted and found and found.files == wanted.files
            if not same or store.setting(GENERATIVE) != trained:
                return False
    return True


def _link_beside(shards: ShardSet, made: Path) -> None:
    """Link a model into every shard, under a name that nothing looks at; it counts as the last."""
    places = [path / FOLDER / (made.name + UNFINISHED) for path in shards.shards]
    number = max(next_number(place.parent) for place in places)
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
    link_folder(made, places[0], without=TRIE)
    artifact = read_model(made)
    assert artifact is not None
    save_artifact(places[0], replace(artifact, config={**artifact.config, "number": number}))
    seal_folder(places[0])
    for place in places[1:]:
        link_folder(places[0], place)


def _name_all(
    shards: ShardSet, name: str, trained: Store, config: Config, progress: Progress
) -> None:
    """Name the documents of every shard with the model that was linked beside."""
    try:
        from quoth.search.generative.searcher import GenerativeSearcher
    except ImportError as error:
        raise missing_neural(error, what="generative models") from error
    models, wanted = LoadedModels(), config.generative
    write = functools.partial(name_documents, config, trained, load=models.generator)
    first = shards.shard(0) / FOLDER / (name + UNFINISHED)
    for path in shards.shards:
        with contextlib.closing(Store.open(path)) as store:
            searcher = GenerativeSearcher(
                path / FOLDER / (name + UNFINISHED) / TRIE,
                store,
                load_model=lambda: models.generative(first),
                config=wanted,
                identify=None if wanted.generator == NO_GENERATOR else write,
            )
            searcher.rebuild(store, progress=progress)
