"""What writing to a collection asks for: its lock, and the settings it was made with."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from reprlib import repr as shorten

from quoth.artifact import FILE_NAME as ARTIFACT
from quoth.artifact import seal_folder
from quoth.collection import schema
from quoth.collection.lock import hold_writer_lock
from quoth.collection.store import FILE_NAME, Store
from quoth.errors import (
    Busy,
    CollectionError,
    Damaged,
    IndexMismatch,
    MissingExtra,
    OutOfFiles,
    StorageFailed,
    StorageFull,
)
from quoth.interruption import Interruption, check_interruption, interruptible
from quoth.search.searcher import KeptIndex, Progress
from quoth.settings.config import Config, stored_values
from quoth.settings.stored import store_answer
from quoth.sqlite_reading import can_write_beside

_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(folder: Path, *, wait_seconds: float) -> Iterator[None]:
    """Be the one writer of a collection, whose folder is made if need be.

    Work can be given up until it has the lock. From then on nothing stops it: what it wrote stays,
    and an index that was left halfway would be begun again by whoever comes next.
    """
    check_interruption()
    try:
        schema.require_free(folder, FILE_NAME)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectionError(
            f"{folder} cannot hold a collection ({error.strerror}); name another folder"
        ) from error
    if not can_write_beside(folder / FILE_NAME):
        raise CollectionError(
            f"{folder} may not be written to by this user, who can search it as far as its indexes"
            f' are up to date; whoever may write brings them up to date with "quoth verify {folder}'
            ' --repair"'
        )
    with hold_writer_lock(folder, wait_seconds=wait_seconds):
        check_interruption()
        with interruptible(Interruption()):
            yield


def require_index(folder: Path, busy: Busy) -> None:
    """Say that somebody builds the index where there is none to search on with."""
    if not (folder / "lexical" / ARTIFACT).exists():
        raise Busy(
            f"the index of {folder} is being built or repaired by another process; search again"
            " when it has finished"
        ) from busy


@contextlib.contextmanager
def after_storing() -> Iterator[None]:
    """Say that documents are stored where the indexes could not follow them."""
    try:
        yield
    except Damaged as error:
        raise Damaged(f"the documents are stored, but an index is damaged: {error}") from error
    except (OutOfFiles, StorageFailed, StorageFull) as error:
        raise type(error)(
            "the documents are stored; they will be found after the next write or search that"
            f" succeeds, as an index could not be brought up to date: {error}"
        ) from error


def require_stored_settings(folder: Path, store: Store, config: Config) -> None:
    """Keep the settings that shape a new collection; refuse others for one that is made."""
    wanted, kept = stored_values(config), store.setting("config")
    if kept is None:
        store.set_setting("config", wanted)
    elif kept != wanted:
        differing = [
            f"{section}.{key} = {shorten(kept[section].get(key))} (now {shorten(own.get(key))})"
            for section, own in wanted.items()
            for key in {**own, **kept[section]}
            if kept[section].get(key) != own.get(key)
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


def follow_if_possible(
    what: str, give: Callable[[], KeptIndex], store: Store, progress: Progress
) -> None:
    """Bring an index up to date, or log why it has to wait."""
    try:
        give().catch_up(store, progress=progress)
    except (MissingExtra, IndexMismatch) as error:
        _logger.warning("the documents are kept, their %s are not up to date: %s", what, error)
