"""The encoder that a collection has learned: where it stands, and that search uses it.

The setting is kept in the collection and names a folder inside it, so that a collection can be
moved or copied with what it has learned. What a user sets goes before it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from quoth.collection.store import Store
from quoth.settings.stored_answer import kept_answer
from quoth.settings.stored_generative import kept_generative

MODELS = "models"
ASIDE = ".aside"
_SETTING = "learned"
_NAME = re.compile(r"learned-(\d+)")


def kept_layers(store: Store, folder: Path) -> tuple[dict[str, dict[str, Any]], ...]:
    """Give the settings kept with a collection: what it was made with, and how it was trained."""
    found = store.setting(_SETTING)
    learned = {"dense": {"encoder": str(folder / found["encoder"])}} if found else {}
    answering = {"answer": kept_answer(store, folder)}
    return (
        store.setting("config") or {},
        learned,
        {"generative": kept_generative(store)},
        answering,
    )


def use_learned(store: Store, name: str) -> None:
    """Let search use a model of the collection from now on."""
    store.set_setting(_SETTING, {"encoder": f"{MODELS}/{name}"})


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
    taken = [_NAME.match(each.name) for each in models.iterdir()] if models.is_dir() else []
    return f"learned-{1 + max([0, *(int(each[1]) for each in taken if each)])}"
