"""Check a collection: documents against their hashes, indexes against checksums and documents."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from quoth.artifact import FILE_NAME, SEALS, find_sealed_damage
from quoth.collection.source_files import check_files
from quoth.collection.store import FILE_NAME as STORE
from quoth.collection.store import Store
from quoth.engine.calibration_file import HYBRID, read_calibration
from quoth.errors import Damaged, FormatMismatch
from quoth.search.generative.state import FOLDER as GENERATIVE
from quoth.search.searcher import KeptIndex, Progress
from quoth.settings.config import Config, stored_values
from quoth.settings.stored import MODELS, sealed_models
from quoth.sqlite_reading import can_write_beside
from quoth.text.passages import cut_document

REPAIRING = "repairing"
"""Setting of a store: folders whose index a repair has taken away."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What `verify` found, and whether it could be mended."""

    store: tuple[str, ...]
    indexes: tuple[str, ...]
    repaired: bool = False
    behind: Mapping[str, int] = field(default_factory=dict)
    """Folders of indexes that lack changes, as a killed writer leaves them, and how many."""

    models: tuple[str, ...] = ()
    """What is wrong with models; only training or a backup can bring them back."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong (any more)."""
        return not self.store and not self.models and (not self.indexes or self.repaired)

    def lines(self) -> tuple[str, ...]:
        """List what was found, one line each."""
        late = (
            f"{folder} is behind the documents by {count:,} change{'s' if count > 1 else ''}"
            for folder, count in self.behind.items()
        )
        return (*self.store, *self.models, *self.indexes, *late)

    def verdict(self) -> str:
        """Sum up in one sentence."""
        if self.is_clean and self.behind:
            return "nothing is damaged; the next search or write brings the indexes up to date"
        if self.is_clean:
            return "repaired: rebuilt what differed" if self.indexes else "everything is as written"
        if self.store:
            return "documents are damaged; restore collection.db from a backup or add them again"
        if self.models:
            return (
                "a model is damaged, so its indexes could not be checked; restore its folder from a"
                " backup or train it again"
            )
        return "indexes are damaged; --repair rebuilds them from the documents"


@contextlib.contextmanager
def open_to_verify(
    folder: Path, lock: contextlib.AbstractContextManager[None], *, repair: bool
) -> Iterator[Store]:
    """Open a collection to check it, as its one writer; without the lock on read-only media."""
    opening = Store.open if only_reads(folder, repair=repair) else Store.create
    with lock_to_verify(folder, lock, repair=repair), contextlib.closing(opening(folder)) as store:
        yield store


def lock_to_verify(
    folder: Path, lock: contextlib.AbstractContextManager[None], *, repair: bool
) -> contextlib.AbstractContextManager[None]:
    """Return the lock that checking takes: none on read-only media, where nobody writes."""
    return contextlib.nullcontext() if only_reads(folder, repair=repair) else lock


def only_reads(folder: Path, *, repair: bool) -> bool:
    """Whether a check neither will nor may write."""
    return not repair and not can_write_beside(folder / STORE)


def verify(
    store: Store,
    config: Config,
    searchers: Iterable[KeptIndex],
    *,
    repair: bool,
    progress: Progress,
) -> Damage:
    """Check everything; `repair` cuts passages, rebuilds indexes that differ, catches up others."""
    folder = store.path.parent
    cut = functools.partial(cut_document, config=config.passages)
    wanted = stored_values(config)
    in_indexes: list[str] = []
    if repair and store.setting("config") != wanted:
        in_indexes.append(f"{folder}: passages were cut with other settings")
        store.recut(cut=cut, config=wanted)
    progress("checking documents", 0, 0)
    in_store = tuple(store.find_damage(cut=cut))
    in_indexes += _check_calibration(folder / HYBRID, repair=repair)
    in_indexes += check_files(folder, repair=repair)
    in_models = find_model_damage(folder, store)
    behind: dict[str, int] = {}
    # The lexical index comes first and needs no model; the others would load a damaged one.
    for searcher in islice(searchers, 1 if in_models else None):
        name = searcher.folder.relative_to(folder).as_posix()
        found, late = searcher.find_damage(store, progress=progress), searcher.num_behind(store)
        if name in unfinished_repairs(store) and not _is_current(searcher, store.change):
            found = (f"{searcher.folder} was taken away by a repair that was not finished", *found)
        in_indexes += found
        if found and repair:
            with _repairing(store, name):
                # First what says that it is whole: who meets a repair that was killed sees it.
                (searcher.folder / FILE_NAME).unlink(missing_ok=True)
                shutil.rmtree(searcher.folder, ignore_errors=True)
                searcher.rebuild(store, progress=progress)
        elif late and repair:
            searcher.catch_up(store, progress=progress)
        elif late:
            behind[str(searcher.folder)] = late
    return Damage(in_store, tuple(in_indexes), repaired=repair, behind=behind, models=in_models)


def _is_current(searcher: KeptIndex, change: int) -> bool:
    """Whether an index holds everything up to a change; one that cannot be read does not."""
    try:
        return searcher.is_current(change)
    except Damaged:
        return False


def unfinished_repairs(store: Store) -> tuple[str, ...]:
    """Name the folders whose index a repair took away and did not finish."""
    return tuple(store.setting(REPAIRING) or ())


@contextlib.contextmanager
def _repairing(store: Store, name: str) -> Iterator[None]:
    """Remember that an index is taken away until it is there again, whatever happens."""
    others = [each for each in unfinished_repairs(store) if each != name]
    store.set_setting(REPAIRING, [*others, name])
    yield
    store.set_setting(REPAIRING, others)


def find_model_damage(folder: Path, store: Store) -> tuple[str, ...]:
    """Check every file of the models that a collection holds, whether it uses them or not."""
    homes = (folder / MODELS, folder / GENERATIVE)
    models = [each for home in homes if home.is_dir() for each in sorted(home.iterdir())]
    used = sealed_models(store, folder)
    unsealed = [each for each in used if not (each / SEALS).exists()]
    return (
        *(f"{each / SEALS} is missing: the model cannot be checked" for each in unsealed),
        *(problem for each in models if each.is_dir() for problem in find_sealed_damage(each)),
    )


def _check_calibration(folder: Path, *, repair: bool) -> tuple[str, ...]:
    """Check what was found out about fusion; `repair` drops it, so that the defaults hold."""
    try:
        read_calibration(folder, encoder=None)
    except (Damaged, FormatMismatch) as error:
        if repair:
            (folder / FILE_NAME).unlink(missing_ok=True)
        return (str(error),)
    return ()
