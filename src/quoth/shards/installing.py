"""Let all shards of a collection use the same models, all at once.

The files of the models are in every shard before. Then `installing.json` is written beside the
shards: it says what every shard is to use. From that moment on it is decided: whoever opens the
shards finishes what is left to do, and no shard stays with other models than the rest.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quoth.artifact import Artifact, open_artifact, save_artifact, seal_folder
from quoth.collection.lock import hold_writer_lock
from quoth.collection.shards import ShardSet
from quoth.collection.store import Store
from quoth.engine.writing import locked
from quoth.search.generative.state import UNFINISHED, put_in_place
from quoth.settings.stored import ANSWER, MODELS, answer_setting
from quoth.shards.linking import link_folder

INSTALLING = "installing.json"
_KIND, _VERSION = "models being installed", 1
_WAIT_SECONDS = 60.0  # for a search that brings an index of a shard up to date
_logger = logging.getLogger(__name__)


def begin_installing(
    shards: ShardSet, settings: Mapping[str, Any], *, folders: Sequence[str] = ()
) -> None:
    """Decide on what every shard is to keep in its settings.

    `folders` are folders of a shard that complete ones, of the same name and `.tmp`, replace.
    """
    decided = {"settings": dict(settings), "folders": list(folders)}
    save_artifact(shards.folder, Artifact(_KIND, _VERSION, 0, decided), name=INSTALLING)


def is_installing(shards: ShardSet) -> bool:
    """Whether something was decided on, and not finished."""
    return (shards.folder / INSTALLING).exists()


def finish_installing(shards: ShardSet) -> None:
    """Let every shard use what was decided on; the caller holds the lock of the set."""
    decided = open_artifact(shards.folder, kind=_KIND, version=_VERSION, name=INSTALLING)
    if decided is None:
        return
    for path in shards.shards:
        with (
            hold_writer_lock(path, wait_seconds=_WAIT_SECONDS),  # so that no search sees half
            contextlib.closing(Store.create(path)) as store,
        ):
            for name, value in decided.config["settings"].items():
                if store.setting(name) != value:
                    store.set_setting(name, value)
            for name in decided.config.get("folders", ()):
                if (complete := path / (name + UNFINISHED)).exists():
                    put_in_place(complete, path / name)
    (shards.folder / INSTALLING).unlink()
    _logger.info("every shard of %s uses the same models now", shards.folder)


def install_answering(shards: ShardSet, model: Path, *, wait_seconds: float) -> None:
    """Let all shards answer with the model in a folder from now on.

    One that lies inside the collection is given to each shard, so that they can be moved with it.
    """
    kept = model.resolve()
    if kept.is_dir():
        seal_folder(kept)
    if kept.is_relative_to(shards.folder.resolve()):
        kept = Path(MODELS) / model.name
        for path in shards.shards:
            link_folder(model, path / kept)
    with locked(shards.folder, wait_seconds=wait_seconds):
        begin_installing(shards, {ANSWER: answer_setting(kept)})
        finish_installing(shards)
