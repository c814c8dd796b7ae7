"""The folders that a collection is kept in step with, as its settings remember them.

`name` is the folder as it was given, from which docids are made; `path` is where it was found, so
that `quoth sync COLLECTION` works from everywhere. Beside the folders stand the settings that they
are read with, less the defaults.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from quoth.collection.shards import is_sharded, open_shards
from quoth.collection.store import FILE_NAME, Store
from quoth.errors import CollectionError, ConfigError
from quoth.text.readers.files import show_path

_SETTING = "sources"
_FOLDERS = "folders"


class KeepsSettings(Protocol):
    """What values are kept with: a store, or the stores of all shards."""

    def setting(self, name: str) -> Any:
        """Read a value, None where it was never set."""
        ...

    def set_setting(self, name: str, value: object) -> None:
        """Keep a JSON value."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """A folder that is kept in step: what its documents call it, and where it is."""

    name: str
    path: str

    def shown(self, path: str) -> str:
        """Name a file below it as docids do.

        >>> Source("notes", "/home/ada/notes").shown("a/b.md"), Source(".", "/").shown("b.md")
        ('notes/a/b.md', 'b.md')
        """
        return show_path(f"{self.name}/{path}")


@dataclass(frozen=True, slots=True)
class Sources:
    """All folders of a collection, and the settings that they are read with."""

    folders: tuple[Source, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read_sources(store: KeepsSettings) -> Sources:
    """Return the folders that a collection remembers."""
    found = store.setting(_SETTING) or {}
    folders = tuple(Source(each["name"], each["path"]) for each in found.get(_FOLDERS, ()))
    return Sources(folders, {name: own for name, own in found.items() if name != _FOLDERS})


def write_sources(store: KeepsSettings, sources: Sources) -> None:
    """Remember folders, and how they are read."""
    folders = [{"name": each.name, "path": each.path} for each in sources.folders]
    value = {_FOLDERS: folders, **{name: dict(own) for name, own in sources.settings.items()}}
    if store.setting(_SETTING) != value:
        store.set_setting(_SETTING, value)


def open_sources(collection: Path) -> Sources:
    """Return what a collection on disk remembers, in shards or not; nothing where there is none."""
    folder = open_shards(collection).shard(0) if is_sharded(collection) else collection
    if not (folder / FILE_NAME).is_file():
        return Sources()
    with contextlib.closing(Store.open(folder)) as store:
        return read_sources(store)


def join_sources(kept: Sequence[Source], given: Sequence[str]) -> tuple[Source, ...]:
    """Add folders to those that are remembered; refuse what would read a file twice.

    A folder that has moved is followed to its new place if it is given by its old name.
    """
    joined = {each.name: each for each in kept}
    for folder in given:
        new = Source(show_path(folder), str(Path(folder).resolve()))
        if not Path(folder).is_dir():
            raise ConfigError(
                f"{folder} is not a folder; quoth sync takes folders, quoth add reads everything"
                " else"
            )
        if any(each.path == new.path for each in joined.values()):
            continue
        old = joined.get(new.name)
        if old is not None and Path(old.path).is_dir():
            raise CollectionError(
                f"{new.name} is already the name of {old.path}, so the documents of both would get"
                f" the same docids; give the full path, {new.path}"
            )
        _require_apart(new, [each for each in joined.values() if each != old])
        joined[new.name] = new
    return tuple(joined.values())


def _require_apart(new: Source, others: Sequence[Source]) -> None:
    """Refuse a folder inside another one: its files would be read under two names."""
    for other in others:
        here, there = Path(new.path), Path(other.path)
        if here.is_relative_to(there):
            raise CollectionError(
                f"{new.name} is inside {other.name}, which is synced already; leave it out"
            )
        if there.is_relative_to(here):
            raise CollectionError(
                f"{other.name}, which is synced already, is inside {new.name}; first run"
                f" quoth sync COLLECTION --forget {other.name}"
            )
