"""Split a collection into shards, and join shards into a collection: exactly, and all or nothing.

Documents, fields, metadata, settings, identifiers, models and what was found out about fusing are
the same afterwards, and so is the order of documents. Complete vectors are carried over as they are
stored, others have to be made again. All is written beside and renamed at the end, so nothing
half-made ever stands under the final name.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
import secrets
import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quoth.artifact import sync_folder
from quoth.collection.carrying import Carried, CarriedDocument
from quoth.collection.schema import require_collection
from quoth.collection.shards import (
    ShardSet,
    create_shards,
    open_shards,
    require_count,
    require_free,
)
from quoth.collection.source_files import FILE_NAME as SOURCE_FILES
from quoth.collection.source_files import open_files
from quoth.collection.store import FILE_NAME, Store
from quoth.engine.engine import Engine
from quoth.engine.verify import REPAIRING
from quoth.engine.writing import locked
from quoth.errors import CollectionError
from quoth.search.generative.state import FOLDER as GENERATIVE
from quoth.search.generative.state import TRIE
from quoth.search.searcher import Progress, ignore_progress
from quoth.settings.config import Config, Values, build_config
from quoth.shards.engine import ShardedEngine
from quoth.shards.linking import link_or_copy

_CARRIED = ("models", GENERATIVE, "hybrid")
_OWN_SETTINGS = ("forgotten", "lexical_finished", "passage_terms_kept", REPAIRING)
"""What each store keeps for itself."""

_Move = tuple[int, CarriedDocument, int]
"""Number of the source, document, and the row that it is to have."""

_logger = logging.getLogger(__name__)


def split_collection(
    collection: Path,
    out: Path,
    *,
    count: int,
    settings: Sequence[Values] = (),
    progress: Progress = ignore_progress,
) -> ShardSet:
    """Write the documents of a collection as shards into a new folder."""
    require_count(count)
    require_collection(collection, FILE_NAME)
    require_free(out)
    with Engine.open(collection, settings=settings, progress=progress) as engine:
        engine.add_documents([])  # which brings every index up to date
        config = engine.config
    with _written_beside(out) as unfinished:
        with locked(collection, wait_seconds=build_config(*settings).collection.wait_seconds):
            made = create_shards(unfinished, count=count)
            _carry([collection], made.shards, made.shard_of, config=config, progress=progress)
            _carry_source_files(collection, unfinished)
        with ShardedEngine.open(unfinished, settings=settings, progress=progress):
            pass  # opening exchanges the statistics
    return replace(made, folder=out)  # reading it again might fail, and it is done


def merge_shards(
    folder: Path,
    out: Path,
    *,
    settings: Sequence[Values] = (),
    progress: Progress = ignore_progress,
) -> None:
    """Write the documents of all shards as one collection into a new folder."""
    shards = open_shards(folder)
    require_free(out)
    with ShardedEngine.open(folder, settings=settings, progress=progress) as engine:
        engine.add_documents([])
        config = engine.config
    with _written_beside(out) as unfinished:
        with locked(folder, wait_seconds=build_config(*settings).collection.wait_seconds):
            _carry(shards.shards, [unfinished], lambda _docid: 0, config=config, progress=progress)
            _carry_source_files(folder, unfinished)
        with Engine.open(unfinished, settings=settings, progress=progress) as merged:
            merged.add_documents([])


@contextlib.contextmanager
def _written_beside(out: Path) -> Iterator[Path]:
    """Yield a folder to write into; it becomes `out` when the block ends, and goes if it fails."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished = out.with_name(f".{out.name}-{secrets.token_hex(4)}")
        unfinished.mkdir()
    except OSError as error:
        raise CollectionError(f"{out} cannot be made ({error.strerror})") from error
    try:
        yield unfinished
        require_free(out)
        if out.exists():
            out.rmdir()
        os.rename(unfinished, out)
        unfinished = out
        sync_folder(out.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _carry(
    sources: Sequence[Path],
    targets: Sequence[Path],
    place: Callable[[str], int],
    *,
    config: Config,
    progress: Progress,
) -> None:
    """Copy everything from some collections into new ones, each document to where it belongs."""
    with contextlib.ExitStack() as opened:
        taken = [opened.enter_context(contextlib.closing(Store.open(path))) for path in sources]
        given = [opened.enter_context(contextlib.closing(Store.create(path))) for path in targets]
        _require_same_settings(taken)
        for store in given:
            for name, value in _shared_settings(taken[0]).items():
                store.set_setting(name, value)
            store.put_fields(taken[0].fields())
        moves = _Moves(taken, given, place, batch_documents=config.collection.batch_documents)
        moves.carry_documents(progress)
        for path in targets:
            _link_models(sources[0], path, answer=taken[0].setting("answer"))
        _carry_vectors(taken, given, moves, config=config, progress=progress)


def _carry_source_files(collection: Path, target: Path) -> None:
    """Copy what is known of the files that documents come from, shards or not."""
    if (collection / SOURCE_FILES).is_file():
        with open_files(collection) as files:
            files.copy_to(target)


def _shared_settings(store: Store) -> dict[str, Any]:
    return {name: value for name, value in store.settings().items() if name not in _OWN_SETTINGS}


def _require_same_settings(stores: Sequence[Store]) -> None:
    first = _shared_settings(stores[0])
    for store in stores[1:]:
        found = _shared_settings(store)
        if differing := [name for name in first | found if first.get(name) != found.get(name)]:
            raise CollectionError(
                f"{store.path.parent} was made with another {' and '.join(sorted(differing))} than"
                f" {stores[0].path.parent}; shards of one collection must agree"
            )


class _Moves:
    """Documents on their way from some stores to others, and the rows they have in both."""

    def __init__(
        self,
        sources: Sequence[Store],
        targets: Sequence[Store],
        place: Callable[[str], int],
        *,
        batch_documents: int,
    ) -> None:
        self.old: dict[tuple[int, int], array[int]] = {}
        """Rows in a source of what went to a target, by the numbers of both."""
        self.new: dict[tuple[int, int], array[int]] = {}
        """Rows of the same documents in the target."""
        self._sources = sources
        self._targets = targets
        self._place = place
        self._size = batch_documents
        self._waiting: list[list[_Move]] = [[] for _ in targets]

    def carry_documents(self, progress: Progress) -> None:
        """Copy all documents with their identifiers, in the order of their rows."""
        total = sum(store.num_documents for store in self._sources)
        streams = (_numbered(at, store) for at, store in enumerate(self._sources))
        ordered = heapq.merge(*streams, key=lambda each: (each[1].row, each[1].docid))
        for row, (source, stored) in enumerate(ordered, start=1):
            target = self._place(stored.docid)
            for kept, value in ((self.old, stored.row), (self.new, row)):
                kept.setdefault((source, target), array("q")).append(value)
            self._waiting[target].append((source, stored, row))
            if len(self._waiting[target]) >= self._size:
                self._write(target)
            if row % self._size == 0:
                progress("copying documents", row, total)
        for target in range(len(self._targets)):
            self._write(target)
        progress("copying documents", total, total)

    def _write(self, target: int) -> None:
        batch, self._waiting[target] = self._waiting[target], []
        carried: list[Carried] = []
        for at, store in enumerate(self._sources):
            own = [(stored, row) for source, stored, row in batch if source == at]
            if own:
                carried += store.complete_carried(*zip(*own, strict=True))
        self._targets[target].carry(sorted(carried, key=lambda each: each.row))


def _numbered(at: int, store: Store) -> Iterator[tuple[int, CarriedDocument]]:
    return ((at, stored) for stored in store.carried_documents())


def _carry_vectors(
    sources: Sequence[Store],
    targets: Sequence[Store],
    moves: _Moves,
    *,
    config: Config,
    progress: Progress,
) -> None:
    """Copy the vectors of every model that has them of all documents."""
    first = sources[0].path.parent / "dense"
    if not first.is_dir():
        return
    from quoth.search.dense.merged_vectors import carry_vectors, finish_vectors, holds_all

    for name in sorted(each.name for each in first.iterdir()):
        folders = [store.path.parent / "dense" / name for store in sources]
        pairs = zip(folders, sources, strict=True)
        if not all(holds_all(folder, store) for folder, store in pairs):
            _logger.warning("vectors of %s are incomplete and not carried over", name)
            continue
        for done, ((source, target), old) in enumerate(sorted(moves.old.items())):
            progress(f"copying vectors of {name}", done, len(moves.old))
            carry_vectors(
                folders[source],
                targets[target].path.parent / "dense" / name,
                old=old,
                new=moves.new[source, target],
            )
        for store in targets:
            folder = store.path.parent / "dense" / name
            finish_vectors(folder, folders[0], store, config=config.dense, progress=progress)


def _link_models(source: Path, target: Path, *, answer: dict[str, str] | None) -> None:
    """Give a collection the models of another, without a second copy where the disk allows it."""
    inner = [*_CARRIED, *([answer["model"]] if answer else [])]
    for name in inner:
        if (source / name).is_dir() and not Path(name).is_absolute():
            shutil.copytree(
                source / name,
                target / name,
                copy_function=link_or_copy,
                ignore=shutil.ignore_patterns(TRIE) if name == GENERATIVE else None,
                dirs_exist_ok=True,
            )
