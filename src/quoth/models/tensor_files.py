"""Tensors in safetensors files as arrays, without torch; what is not read stays on disk."""

from __future__ import annotations

import hashlib
import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.errors import Damaged

Array = NDArray[np.generic]
Floats = NDArray[np.float32]

SCALE = ".scale"
"""What is added to the name of an int8 matrix for the scales of its rows."""

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I8": "i1", "I64": "<i8"}
_HEAD = 8  # bytes that say how long the description is


def map_tensors(path: Path) -> dict[str, Array]:
    """Map the tensors of a file into memory; bf16 becomes fp32, which is a copy.

    Raises OSError or ValueError where the file is not whole, or holds other types.
    """
    with path.open("rb") as stream:
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    start = _HEAD + int.from_bytes(content[:_HEAD], "little")
    if start > len(content):
        raise ValueError(f"{path} is cut")
    entries = json.loads(content[_HEAD:start])
    entries.pop("__metadata__", None)
    return {name: _map_one(content, start, entry) for name, entry in entries.items()}


def _map_one(content: mmap.mmap, start: int, entry: dict[str, object]) -> Array:
    try:
        kind, shape = str(entry["dtype"]), tuple(entry["shape"])  # type: ignore[arg-type,var-annotated]
        first, last = entry["data_offsets"]  # type: ignore[misc]
        flat = np.frombuffer(content, np.uint8, last - first, start + first)  # type: ignore[has-type]
        array = flat.view(_DTYPES[kind]).reshape(shape)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a tensor cannot be read ({error})") from error
    return widen_bf16(array) if kind == "BF16" else array


def widen_bf16(halves: Array) -> Floats:
    """Turn bf16, given as its bits, into fp32, of which they are the upper half.

    >>> widen_bf16(np.array([0x3FC0, 0xC000], dtype=np.uint16)).tolist()
    [1.5, -2.0]
    """
    return (halves.astype(np.uint32) << 16).view(np.float32)


def digest(path: Path) -> str:
    """Return the checksum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe_weights(path: Path, weights: str, **content: Any) -> None:
    """Write a model's config.json: what it is, and the checksum of the weights beside it."""
    content["sha256"] = digest(path.parent / weights)
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    path.write_text(text, encoding="utf-8")


def read_sealed_arrays(path: Path, *, sha256: str) -> dict[str, Array]:
    """Read tensors as they were written; an altered file is refused."""
    if not path.exists():
        raise Damaged(f"{path} is missing; copy the folder anew")
    if digest(path) != sha256:
        raise Damaged(f"{path} was altered or cut since it was written; copy the folder anew")
    try:
        return map_tensors(path)
    except ValueError as error:
        raise Damaged(f"{path} cannot be read ({error}); copy the folder anew") from error


def widen(tensors: dict[str, Array]) -> dict[str, Floats]:
    """Return tensors in fp32, of rows of int8 and their scales as well.

    >>> small = {"w": np.int8([[127, -64]]), "w.scale": np.float32([0.5])}
    >>> widen(small)["w"].tolist()
    [[63.5, -32.0]]
    """
    return {
        name: np.multiply(array, tensors[name + SCALE][:, None], dtype=np.float32)
        if array.dtype == np.int8
        else np.asarray(array, np.float32)
        for name, array in tensors.items()
        if not name.endswith(SCALE)
    }
