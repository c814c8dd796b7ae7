"""The statistics of all shards, summed up and given to each: what makes their scores agree.

Each shard keeps a file with the sums over all, and which change of which shard they cover. A shard
that has changed since then refuses to search with them. Sums are written beside and renamed, shard
by shard; where a kill left some shards with older sums, the next exchange finishes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.artifact import sync_folder
from quoth.collection.shards import ShardSet
from quoth.collection.store import Store
from quoth.errors import Damaged, OutOfDate
from quoth.search.lexical.upkeep import STATISTICS_FILE
from quoth.vocabulary.statistics import Statistics

if TYPE_CHECKING:
    pass

EXCHANGED_FILE = "exchanged.db"


@dataclass(frozen=True, slots=True)
class Covered:
    """Up to where a shard is counted in the sums."""

    change: int
    log: str
    documents: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one exchange summed up."""

    identity: str
    """The set of shards it was made for."""

    covers: tuple[Covered, ...]
    """Each shard, in order."""

    def covers_store(self, number: int, store: Store) -> bool:
        """Whether a shard, in the state that is read, is counted completely."""
        covered, change = self.covers[number], store.change
        return (covered.change, covered.log) == (change, store.log_digest(change))


def read_exchange(shard: Path) -> Exchange | None:
    """Read what the sums that lie in a shard cover, None before the first exchange."""
    path = shard / EXCHANGED_FILE
    if not path.exists():
        return None
    with contextlib.closing(Statistics.open(path)) as statistics:
        basis = statistics.basis
    try:
        covers = tuple(Covered(**each) for each in basis["covers"])
        return Exchange(str(basis["identity"]), covers)
    except (KeyError, TypeError) as error:
        raise Damaged(f"{path} does not say what it covers ({error})") from error


def exchange_is_due(shards: ShardSet) -> bool:
    """Whether some shard has changed, or lacks the sums that the others have."""
    found = [read_exchange(path) for path in shards.shards]
    first = found[0]
    if first is None or first.identity != shards.identity or any(each != first for each in found):
        return True
    for number, path in enumerate(shards.shards):
        with contextlib.closing(Store.open(path)) as store:
            if not first.covers_store(number, store):
                return True
    return False


def out_of_date(folder: Path) -> OutOfDate:
    """Say what to do where sums do not cover a shard."""
    return OutOfDate(
        f"{folder} has changed since the shards exchanged their statistics, so its scores would not"
        f' fit those of the others; run "quoth shard --exchange {folder.parent}"'
    )


def agree_on_fields(orders: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Join fields in orders of first appearance: what all agree on stays as it is.

    >>> agree_on_fields([["title", "text"], ["title", "text", "url"], ["title", "name"]])
    ('title', 'name', 'text', 'url')
    """
    first: dict[str, int] = {}
    for order in orders:
        for at, name in enumerate(order):
            first[name] = min(at, first.get(name, at))
    return tuple(sorted(first, key=lambda name: (first[name], name)))


def write_sums(shards: ShardSet) -> None:
    """Sum up the statistics of all shards, and put the sums into each."""
    with _summed_up(shards) as sums:
        for path in shards.shards:
            _put(sums, path / EXCHANGED_FILE)


@contextlib.contextmanager
def _summed_up(shards: ShardSet) -> Iterator[Path]:
    """Write the sums into a file that is there until the block ends."""
    with tempfile.TemporaryDirectory(prefix=".exchange-", dir=shards.folder) as scratch:
        path = Path(scratch) / EXCHANGED_FILE
        with contextlib.closing(Statistics.open(path, write=True)) as sums:
            covers: list[dict[str, object]] = []
            basis: dict[str, object] = {}
            for shard in shards.shards:
                change, basis, documents = sums.add_from(shard / "lexical" / STATISTICS_FILE)
                covers.append(asdict(Covered(change, str(basis.get("log", "")), documents)))
            sums.begin()
            sums.commit(
                change=sums.change,
                basis={
                    "identity": shards.identity,
                    "covers": covers,
                    "analyser": basis.get("analyser"),
                },
            )
            sums.settle()
        yield path


def _put(sums: Path, target: Path) -> None:
    """Copy a file into place in one step."""
    temporary = target.with_name(target.name + ".tmp")
    shutil.copyfile(sums, temporary)
    with temporary.open("rb+") as stream:
        os.fsync(stream.fileno())
    os.replace(temporary, target)
    sync_folder(target.parent)
