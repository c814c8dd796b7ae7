"""One state of a generative index: written whole under a number of its own, then mapped."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import FILE_NAME, FileSeal, seal_file
from quoth.errors import CollectionError, Damaged, IndexMoved
from quoth.index.dense.files import explain, make_folder, map_array, write_array
from quoth.index.trie.files import open_trie, save_trie
from quoth.index.trie.trie import Trie
from quoth.search.generative.added import AddedPhrases, no_phrases
from quoth.search.generative.means import Owned, list_owned
from quoth.search.generative.names import Float32
from quoth.search.generative.state import (
    IndexState,
    find_index_damage,
    name_state,
    read_index,
    save_index_state,
)
from quoth.vocabulary.identifiers import Integers
from quoth.vocabulary.phrases.text import Strings

_NORMS, _ROWS = "norms.npy", "rows.npy"
_WORDS, _STARTS, _WORD_ROWS = "added-words.npy", "added-starts.npy", "added-rows.npy"
_NAME = re.compile(r"\d{6,}")


@dataclass(frozen=True, eq=False)  # no slots: what is worked out once needs a place
class GenerativeIndex:
    """An opened state; it stays readable after a writer replaced it."""

    trie: Trie
    norms: Float32  # (N,) length of each identifier's weighted sum
    rows: Integers  # documents that were looked at, sorted; some may have no name
    added: AddedPhrases = field(default_factory=no_phrases)

    @cached_property
    def owned(self) -> Owned:
        """The identifiers of each document, made when first asked for."""
        return list_owned(self.trie)


@dataclass(frozen=True, slots=True)
class IndexBasis:
    """What an index is made from: which change of which history, by which model, how."""

    change: int
    log: str
    model: str
    settings: Mapping[str, Any]


def save_index(folder: Path, index: GenerativeIndex, *, basis: IndexBasis) -> None:
    """Write an index beside the one that the folder may hold, and let it be the newest."""
    number = 1 + max((int(each.name) for each in _states(folder)), default=0)
    own = folder / name_state(number)
    try:
        make_folder(own)
        save_trie(index.trie, own, change=basis.change)
        seals = {FILE_NAME: seal_file(own / FILE_NAME)}
        arrays: dict[str, NDArray[Any]] = {_NORMS: index.norms, _ROWS: index.rows}
        if len(index.added):
            strings = index.added.strings
            arrays |= {_WORDS: strings.content, _STARTS: strings.offsets}
            arrays |= {_WORD_ROWS: index.added.rows}
        for name, array in arrays.items():
            seals[name] = write_array(own / name, [array], dtype=array.dtype, shape=array.shape)
        state = IndexState(
            change=basis.change,
            log=basis.log,
            number=number,
            model=basis.model,
            settings=basis.settings,
            num_documents=len(index.rows),
            num_identifiers=len(index.trie),
            num_added=len(index.added),
            files={f"{own.name}/{name}": seal for name, seal in seals.items()},
        )
        save_index_state(folder, state)
    except OSError as error:
        raise explain(folder, error) from error
    for other in _states(folder):
        if other.name != own.name:
            with contextlib.suppress(OSError):  # mapped by a reader on Windows: the next one does
                shutil.rmtree(other)


def open_index(folder: Path, state: IndexState, *, deep: bool = False) -> GenerativeIndex:
    """Map a state into memory; `deep` reads every file to compare it with its checksum."""
    try:
        return _open(folder, state, deep=deep)
    except CollectionError as error:
        newest = read_index(folder)
        if newest is not None and newest.number != state.number:
            raise IndexMoved(f"a writer replaced {folder} meanwhile; search again") from error
        raise


def _open(folder: Path, state: IndexState, *, deep: bool) -> GenerativeIndex:
    if problems := find_index_damage(folder, state, deep=deep):
        raise Damaged("; ".join(problems))
    own = folder / state.subfolder
    trie = open_trie(own, deep=deep)
    if len(trie) != state.num_identifiers:
        raise Damaged(f"{own} has {len(trie):,} identifiers, expected {state.num_identifiers:,}")
    seals = {Path(name).name: seal for name, seal in state.files.items()}
    return GenerativeIndex(
        trie,
        _map(own / _NORMS, seals, dtype=np.float32, size=state.num_identifiers),
        _map(own / _ROWS, seals, dtype=np.int64, size=state.num_documents),
        _open_added(own, count=state.num_added),
    )


def _open_added(own: Path, *, count: int) -> AddedPhrases:
    """Read the words that the model's vocabulary lacks; they are few beside its own."""
    if not count:
        return no_phrases()
    try:
        content, starts, rows = (
            np.load(own / name, allow_pickle=False) for name in (_WORDS, _STARTS, _WORD_ROWS)
        )
    except ValueError as error:
        raise Damaged(f"{own} cannot be read ({error})") from error
    except OSError as error:
        raise explain(own, error) from error
    if len(starts) != count + 1 or len(rows) != count or len(content) != starts[-1]:
        raise Damaged(f"{own} does not have the {count:,} words that were added")
    return AddedPhrases(Strings(content, starts), rows)


def _map(path: Path, seals: Mapping[str, FileSeal], *, dtype: Any, size: int) -> NDArray[Any]:
    if size == 0:  # an empty stretch of a file cannot be mapped
        return np.empty(0, dtype=dtype)
    return map_array(path, seals[path.name], dtype=np.dtype(dtype), shape=(size,))


def _states(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [each for each in folder.iterdir() if _NAME.fullmatch(each.name)]
