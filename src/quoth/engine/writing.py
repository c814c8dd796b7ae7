"""What writing to a collection asks for: its lock, and the settings it was made with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from quoth.artifact import seal_folder
from quoth.collection.lock import hold_writer_lock
from quoth.collection.store import Store
from quoth.errors import CollectionError, IndexMismatch, OutOfFiles, StorageFull
from quoth.interruption import Interruption, check_interruption, interruptible
from quoth.settings.config import STORED_SECTIONS, Config, as_values
from quoth.settings.stored import store_answer


@contextlib.contextmanager
def locked(folder: Path, *, wait_seconds: float) -> Iterator[None]:
    """Be the one writer of a collection, whose folder is made if need be.

    Work can be given up until it has the lock. From then on nothing stops it: what it wrote stays,
    and an index that was left halfway would be begun again by whoever comes next.
    """
    check_interruption()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectionError(
            f"{folder} cannot hold a collection ({error.strerror}); name another folder"
        ) from error
    with hold_writer_lock(folder, wait_seconds=wait_seconds):
        check_interruption()
        with interruptible(Interruption()):
            yield


@contextlib.contextmanager
def after_storing() -> Iterator[None]:
    """Say that documents are stored where the indexes could not follow them for want of room."""
    try:
        yield
    except (OutOfFiles, StorageFull) as error:
        raise type(error)(
            "the documents are stored; they will be found after the next write or search that"
            f" succeeds, as an index could not be brought up to date: {error}"
        ) from error


def require_stored_settings(folder: Path, store: Store, config: Config) -> None:
    """Keep the settings that shape a new collection; refuse others for one that is made."""
    wanted, kept = as_values(config, STORED_SECTIONS), store.setting("config")
    if kept is None:
        store.set_setting("config", wanted)
    elif kept != wanted:
        differing = [
            f"{section}.{key} = {kept[section].get(key)!r} (now {value!r})"
            for section in STORED_SECTIONS
            for key, value in wanted[section].items()
            if kept[section].get(key) != value
        ]
        raise IndexMismatch(
            f"{folder} was made with {', '.join(differing)}; leave that setting out, or"
            f' change the whole collection with "quoth verify {folder} --repair" and the'
            " setting"
        )


def install_model(collection: Path, model: Path, *, wait_seconds: float) -> None:
    """Let a collection answer with the model in a folder from now on."""
    inside, home = model.resolve(), collection.resolve()
    kept = inside.relative_to(home) if inside.is_relative_to(home) else inside
    if inside.is_dir():
        seal_folder(inside)
    with (
        locked(collection, wait_seconds=wait_seconds),
        contextlib.closing(Store.create(collection)) as store,
    ):
        store_answer(store, kept)
