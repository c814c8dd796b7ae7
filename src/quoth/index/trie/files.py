"""A trie on disk: an artifact folder with one `.npy` per array, mapped when it is opened.

The name of an array's file holds the start of its checksum, so a file in use is never written over,
and the same trie always gives the same files. `artifact.json` is replaced last: until then the
folder holds the trie it held before.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.artifact import Artifact, FileSeal, find_damage, open_artifact, save_artifact
from quoth.errors import Damaged, FormatMismatch, NoCollection
from quoth.index.dense.files import explain, make_folder, map_array, write_array
from quoth.index.trie.trie import ARRAYS, Trie, find_length_starts

KIND = "trie"
VERSION = 2
_OURS = re.compile(rf"({'|'.join(ARRAYS)})-[0-9a-f]{{16}}\.npy|({'|'.join(ARRAYS)})\.npy\.tmp")
_DTYPES = ("int32", "int64", "uint16")


def save_trie(trie: Trie, folder: Path, *, change: int = 0) -> None:
    """Write a trie, in place of the one that the folder may hold.

    `change` is the number of the collection's last change that it contains.
    """
    try:
        make_folder(folder)
        seals, arrays = {}, {}
        for name in ARRAYS:
            array = getattr(trie, name)
            file, seal = _write(folder, name, array)
            seals[file] = seal
            arrays[name] = {"file": file, "dtype": str(array.dtype), "size": len(array)}
        config = {"arrays": arrays, "num_owners": trie.num_owners}
        save_artifact(folder, Artifact(KIND, VERSION, change, config, seals))
    except OSError as error:
        raise explain(folder, error) from error
    _sweep(folder, keep=set(seals))


def open_trie(folder: Path, *, deep: bool = False) -> Trie:
    """Map a saved trie into memory; `deep` reads every file to compare it with its checksum."""
    try:
        artifact = open_artifact(folder, kind=KIND, version=VERSION)
    except FormatMismatch as error:
        raise FormatMismatch(f"{error}; build the identifiers' index again") from error
    if artifact is None:
        raise NoCollection(f"{folder} holds no trie; build the identifiers' index again")
    problems = find_damage(folder, artifact, deep=deep)
    if problems:
        raise Damaged(f"{'; '.join(problems)}; build the identifiers' index again")
    try:
        arrays = {name: _map(folder, artifact, name) for name in ARRAYS}
        trie = Trie(**arrays, num_owners=int(artifact.config["num_owners"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{folder} does not describe a trie ({error!r})") from error
    _check_sizes(folder, trie)
    return trie


def _write(folder: Path, name: str, array: NDArray[Any]) -> tuple[str, FileSeal]:
    temporary = folder / f"{name}.npy.tmp"
    seal = write_array(temporary, [array], dtype=array.dtype, shape=array.shape)
    file = f"{name}-{seal.sha256[:16]}.npy"
    os.replace(temporary, folder / file)
    return file, seal


def _map(folder: Path, artifact: Artifact, name: str) -> NDArray[Any]:
    entry = artifact.config["arrays"][name]
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"{name} is of {entry['dtype']}")
    dtype, size = np.dtype(entry["dtype"]), int(entry["size"])
    if size == 0:  # an empty stretch of a file cannot be mapped
        return np.empty(0, dtype=dtype)
    seal = artifact.files[entry["file"]]
    return map_array(folder / entry["file"], seal, dtype=dtype, shape=(size,))


def _check_sizes(folder: Path, trie: Trie) -> None:
    """Compare the arrays with one another: a kernel that reads past an end would not notice."""
    expected = {
        "phrase_ids": int(find_length_starts(trie.length_rows)[-1]),
        "owner_starts": len(trie) + 1,
        "owners": int(trie.owner_starts[-1]),
        "rarest_pairs": 3 * len(trie),
    }
    found = {name: len(getattr(trie, name)) for name in expected}
    problems = [
        f"{found[name]:,} {name}, expected {size:,}"
        for name, size in expected.items()
        if found[name] != size
    ]
    if problems or int(trie.rarest_starts[-1]) != len(trie):
        raise Damaged(f"{folder} contradicts itself ({'; '.join(problems) or 'rarest_starts'})")


def _sweep(folder: Path, *, keep: set[str]) -> None:
    """Delete arrays that are not recorded: replaced ones, and what a killed write left."""
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in keep:
            with contextlib.suppress(OSError):  # mapped by a reader on Windows: the next one does
                path.unlink()
