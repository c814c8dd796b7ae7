"""The language model that a collection answers with, once one was trained for it and installed.

The setting is kept in the collection. A folder inside the collection is named by its place in it,
so that both can be moved together; any other by its full path. What a user sets goes before it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from quoth.collection.store import Store
from quoth.engine.writing import locked

_SETTING = "answer"
_MODEL = "model"


def install_model(collection: Path, model: Path, *, wait_seconds: float) -> None:
    """Let a collection answer with the model in a folder from now on."""
    inside, home = model.resolve(), collection.resolve()
    kept = inside.relative_to(home) if inside.is_relative_to(home) else inside
    with (
        locked(collection, wait_seconds=wait_seconds),
        contextlib.closing(Store.create(collection)) as store,
    ):
        store.set_setting(_SETTING, {_MODEL: kept.as_posix()})


def kept_answer(store: Store, folder: Path) -> dict[str, str]:
    """Give the settings of answering that are kept with a collection; none where none are."""
    found = store.setting(_SETTING)
    return {_MODEL: str(folder / found[_MODEL])} if found else {}
