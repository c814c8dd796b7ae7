"""A collection in shards: a folder of ordinary collections, each of which works alone.

    notes.shards/
      shards.json            which set this is, and how many shards it has
      shard-00000/           an ordinary collection
        shard.json           which set it belongs to, and its number there
      shard-00001/

A document belongs to the shard that a hash of its docid names, so its place follows from its docid
and the number of shards alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.collection.schema import SET_FILE
from quoth.collection.store import Store
from quoth.errors import CollectionError, ConfigError, Damaged, NoCollection

SHARD_FILE = "shard.json"
MAX_SHARDS = 100_000
"""As many as five digits can number."""

_SET_KIND = "set of shards"
_SHARD_KIND = "shard"
_VERSION = 1
_HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards of one collection."""

    folder: Path
    identity: str
    count: int

    def shard(self, number: int) -> Path:
        """Name the folder of a shard."""
        return self.folder / f"shard-{number:05d}"

    @property
    def shards(self) -> tuple[Path, ...]:
        """The folders of all shards, in order."""
        return tuple(self.shard(number) for number in range(self.count))

    def shard_of(self, docid: str) -> int:
        """Say which shard a document belongs to.

        >>> [ShardSet(Path("notes.shards"), "", 4).shard_of(docid) for docid in ("a", "d", "h")]
        [2, 1, 3]
        """
        digest = hashlib.sha256(docid.encode()).digest()
        return int.from_bytes(digest[:_HASH_BYTES], "big") % self.count


def is_sharded(folder: Path) -> bool:
    """Whether a folder holds a collection in shards."""
    return (folder / SET_FILE).is_file()


def create_shards(folder: Path, *, count: int) -> ShardSet:
    """Make an empty collection in shards, in a folder that is new or empty."""
    require_count(count)
    require_free(folder)
    made = ShardSet(folder, secrets.token_hex(16), count)
    for number, path in enumerate(made.shards):
        with contextlib.closing(Store.create(path)):
            label = {"set": made.identity, "number": number}
            save_artifact(path, Artifact(_SHARD_KIND, _VERSION, 0, label), name=SHARD_FILE)
    described = {"identity": made.identity, "count": count}
    save_artifact(folder, Artifact(_SET_KIND, _VERSION, 0, described), name=SET_FILE)
    return made


def open_shards(folder: Path) -> ShardSet:
    """Open a collection in shards; all of them must be there, and of this set."""
    artifact = open_artifact(folder, kind=_SET_KIND, version=_VERSION, name=SET_FILE)
    if artifact is None:
        raise NoCollection(
            f"{folder} is not a collection in shards: it has no {SET_FILE}; make one with"
            f' "quoth shard COLLECTION --shards N --out {folder}"'
        )
    try:
        found = ShardSet(folder, str(artifact.config["identity"]), int(artifact.config["count"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{folder / SET_FILE} does not describe a set of shards ({error})") from error
    for number in range(found.count):
        _require_shard(found, number)
    return found


def shard_number(folder: Path) -> int | None:
    """Say which shard of its set a collection is, None for one that is no shard."""
    label = open_artifact(folder, kind=_SHARD_KIND, version=_VERSION, name=SHARD_FILE)
    return None if label is None else int(label.config["number"])


def require_count(count: int) -> None:
    """Refuse a number of shards that nothing can be split into."""
    if not 1 <= count <= MAX_SHARDS:
        raise ConfigError(f"{count} shards were asked for, expected 1 to {MAX_SHARDS:,}")


def require_free(folder: Path) -> None:
    """Refuse a place where something is already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CollectionError(f"{folder} exists and is not empty; name another folder")


def _require_shard(found: ShardSet, number: int) -> None:
    path = found.shard(number)
    label = open_artifact(path, kind=_SHARD_KIND, version=_VERSION, name=SHARD_FILE)
    if label is None:
        raise CollectionError(
            f"shard {number} of {found.count} is missing: there is no {path / SHARD_FILE};"
            " put the folder back, or restore it from a backup"
        )
    if label.config.get("set") != found.identity:
        raise CollectionError(
            f"{path} is a shard of another collection (set {label.config.get('set')}, expected"
            f" {found.identity}); put back the shard that belongs here"
        )
    if label.config.get("number") != number:
        raise CollectionError(
            f"{path} holds shard {label.config.get('number')} of its set, expected shard {number};"
            " put each shard back under its own name"
        )
