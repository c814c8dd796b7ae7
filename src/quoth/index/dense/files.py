"""Array files of a dense index: written once, durably, under a name never used before, then mapped.

Plain `.npy`, no pickle. The shape of each is known from `artifact.json`, which carries its own
checksum; mapping goes by that and does not trust the file's header.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from quoth.artifact import FileSeal, seal_file, sync_folder
from quoth.errors import CollectionError, Damaged, StorageFull
from quoth.open_files import out_of_files, says_out_of_files
from quoth.storage_failures import says_storage_failed, storage_failed

_OURS = re.compile(r"(segment|removed|graph|places|trained|block|ivfpq)-\d{6,}\.[a-z.]+")
_DISK_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


def write_array(
    path: Path, blocks: Iterable[NDArray[Any]], *, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> FileSeal:
    """Write blocks of rows as one array and wait until the disk has them."""
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with path.open("wb") as stream:
        npy.write_array_header_1_0(stream, header)
        for block in blocks:
            stream.write(np.ascontiguousarray(block, dtype=dtype).data)
        stream.flush()
        os.fsync(stream.fileno())
    return seal_file(path)


def map_array(
    path: Path, seal: FileSeal, *, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> NDArray[Any]:
    """Map an array into memory, read-only; nothing is read before it is used."""
    offset = seal.size - dtype.itemsize * int(np.prod(shape))
    try:
        mapped = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    except (OSError, ValueError) as error:
        if says_out_of_files(error):
            raise out_of_files(path) from error
        if says_storage_failed(error):
            raise storage_failed(path, error) from error
        raise Damaged(f"{path} cannot be mapped into memory ({error})") from error
    return np.asarray(mapped)


def sync_file(path: Path) -> None:
    """Wait until the disk has a file that another library wrote."""
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def make_folder(folder: Path) -> None:
    """Create a folder, and make it durable in the one it stands in."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sweep(folder: Path, *, keep: Collection[str]) -> None:
    """Delete array files that are not recorded: replaced ones, and what a killed write left."""
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in keep:
            with contextlib.suppress(OSError):  # mapped by a reader on Windows: the next one does
                path.unlink()


def explain(folder: Path, error: OSError) -> CollectionError:
    """Turn a failed write into an error that says what to do."""
    if says_out_of_files(error):
        return out_of_files(folder)
    if error.errno in _DISK_FULL or "No space left" in str(error):
        return StorageFull(
            f"{folder} could not be written: the disk is full or limited; the documents are safe,"
            " and search continues on the last finished index until there is room"
        )
    if says_storage_failed(error):
        return storage_failed(folder, error)
    return CollectionError(f"{folder} could not be written ({error})")
