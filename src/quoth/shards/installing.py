"""Let all shards of a collection use the same models, all at once.

The files of the models are in every shard before. Then `installing.json` is written beside the
shards: it says what every shard is to use. From that moment on it is decided: whoever opens the
shards finishes what is left to do, and no shard stays with other models than the rest.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.collection.shards import ShardSet
from quoth.collection.store import Store

INSTALLING = "installing.json"
_KIND, _VERSION = "models being installed", 1
_logger = logging.getLogger(__name__)


def begin_installing(shards: ShardSet, settings: Mapping[str, Any]) -> None:
    """Decide on what every shard is to keep in its settings."""
    decided = Artifact(_KIND, _VERSION, 0, {"settings": dict(settings)})
    save_artifact(shards.folder, decided, name=INSTALLING)


def is_installing(shards: ShardSet) -> bool:
    """Whether something was decided on, and not finished."""
    return (shards.folder / INSTALLING).exists()


def finish_installing(shards: ShardSet) -> None:
    """Let every shard use what was decided on; the caller holds the lock of the set."""
    decided = open_artifact(shards.folder, kind=_KIND, version=_VERSION, name=INSTALLING)
    if decided is None:
        return
    for path in shards.shards:
        with contextlib.closing(Store.create(path)) as store:
            for name, value in decided.config["settings"].items():
                if store.setting(name) != value:
                    store.set_setting(name, value)
    (shards.folder / INSTALLING).unlink()
    _logger.info("every shard of %s uses the same models now", shards.folder)
