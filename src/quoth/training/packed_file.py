"""One file that holds named arrays and a few facts, checked to the last byte.

What training needs of a collection travels as such a file: a line that names the kind, a line of
JSON with the facts, the arrays' types and a checksum, and the arrays themselves, compressed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.errors import Damaged, FormatMismatch

Arrays = dict[str, NDArray[Any]]


def write_packed(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, kind: str, facts: Mapping[str, Any]
) -> None:
    """Write arrays and facts, over an older file only when complete."""
    payload = zlib.compress(b"".join(array.tobytes() for array in arrays.values()), level=6)
    header = {
        **facts,
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()],
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    line = json.dumps(header, sort_keys=True).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(_magic(kind) + line + payload)
    os.replace(temporary, path)


def read_packed(path: Path, *, kind: str, expected: Mapping[str, Any]) -> tuple[Arrays, Any]:
    """Read arrays and facts; facts that must be as expected decide about the format."""
    magic = _magic(kind)
    try:
        content = path.read_bytes()
        end = content.index(b"\n", len(magic))
        header, payload = json.loads(content[len(magic) : end]), content[end + 1 :]
        if not content.startswith(magic) or (
            hashlib.sha256(payload).hexdigest() != header["sha256"]
        ):
            raise ValueError("its checksum differs")
        if any(header[name] != value for name, value in expected.items()):
            raise FormatMismatch(f"{path} was written by another version of Quoth; make it again")
        return _cut(zlib.decompress(payload), header["arrays"]), header
    except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
        name = kind.replace("-", " ")
        raise Damaged(f"{path} is no whole {name} ({error}); make it again") from error


def _magic(kind: str) -> bytes:
    return f"quoth-{kind}\n".encode()


def _cut(payload: bytes, shapes: list[Any]) -> Arrays:
    arrays: Arrays = {}
    at = 0
    for name, kind, shape in shapes:
        array = np.frombuffer(payload, np.dtype(kind), int(np.prod(shape)), at).reshape(shape)
        arrays[name] = array.copy()  # torch takes no read-only arrays
        at += array.nbytes
    return arrays
