"""Read a language model out of one GGUF file: settings, tokenizer tables and tensors.

Reads version 3 of the format and the three kinds of tensors that the embedded model has: fp32, and
blocks of 32 numbers in 8 bits (Q8_0: q · d) or in 4 bits (Q4_1: q · d + m). Pure: bytes in, arrays
out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.errors import Damaged

_MAGIC, _VERSION, _ALIGNMENT = b"GGUF", 3, 32
_FORMATS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_BLOCK = 32
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_SMALL = {
    _Q4_1: np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", (_BLOCK // 2,))]),
    _Q8_0: np.dtype([("d", "<f2"), ("q", "i1", (_BLOCK,))]),
}


@dataclass(frozen=True, slots=True)
class GgufModel:
    """What one file holds."""

    settings: Mapping[str, Any]
    tensors: Mapping[str, NDArray[np.float32]]


def read_gguf(path: Path) -> GgufModel:
    """Read a file whole, tensors widened to fp32."""
    cursor = _Cursor(path.read_bytes(), path)
    if cursor.take(4) != _MAGIC or cursor.number("I") != _VERSION:
        raise Damaged(f"{path} is not a GGUF file of version {_VERSION}; install it anew")
    num_tensors, num_settings = cursor.number("Q"), cursor.number("Q")
    settings = {cursor.string(): cursor.value(cursor.number("I")) for _ in range(num_settings)}
    described = [_describe(cursor) for _ in range(num_tensors)]
    alignment = int(settings.get("general.alignment", _ALIGNMENT))
    start = -(-cursor.at // alignment) * alignment
    return GgufModel(
        settings,
        {each.name: _widen(cursor, each, start=start) for each in described},
    )


@dataclass(frozen=True, slots=True)
class _Described:
    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


class _Cursor:
    """A place in the file's bytes that moves on as they are read."""

    def __init__(self, content: bytes, path: Path) -> None:
        self.content, self.path = content, path
        self.at = 0

    def take(self, count: int) -> bytes:
        """Read some bytes."""
        found = self.content[self.at : self.at + count]
        if len(found) < count:
            raise Damaged(f"{self.path} is cut short at {len(self.content):,} bytes")
        self.at += count
        return found

    def number(self, kind: str) -> Any:
        """Read one number."""
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def string(self) -> str:
        """Read one string."""
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        """Read a setting."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        if kind not in _FORMATS:
            raise Damaged(f"{self.path} has a setting of unknown kind {kind}")
        return self.number(_FORMATS[kind])


def _describe(cursor: _Cursor) -> _Described:
    name, dimensions = cursor.string(), cursor.number("I")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))[::-1]  # rows first
    return _Described(name, shape, cursor.number("I"), cursor.number("Q"))


def _widen(cursor: _Cursor, described: _Described, *, start: int) -> NDArray[np.float32]:
    """Return a tensor in fp32."""
    count = math.prod(described.shape)
    cursor.at = start + described.offset
    if described.kind == _F32:
        whole = np.frombuffer(cursor.take(4 * count), dtype="<f4")
    elif described.kind in _SMALL:
        kind = _SMALL[described.kind]
        blocks = np.frombuffer(cursor.take(count // _BLOCK * kind.itemsize), dtype=kind)
        whole = widen_q4_1(blocks) if described.kind == _Q4_1 else widen_q8_0(blocks)
    else:
        raise Damaged(f"{cursor.path}: {described.name} is of unknown kind {described.kind}")
    return whole.astype(np.float32).reshape(described.shape)


def widen_q4_1(blocks: NDArray[Any]) -> NDArray[np.float32]:  # (32 per block,)
    """Return d · q + m; the low halves of the bytes are the first 16 numbers of a block."""
    halves = np.concatenate((blocks["q"] & 15, blocks["q"] >> 4), axis=1).astype(np.float32)
    whole = blocks["d"].astype(np.float32)[:, None] * halves
    return (whole + blocks["m"].astype(np.float32)[:, None]).reshape(-1)


def widen_q8_0(blocks: NDArray[Any]) -> NDArray[np.float32]:  # (32 per block,)
    """Return d · q."""
    scales = blocks["d"].astype(np.float32)[:, None]
    return (scales * blocks["q"].astype(np.float32)).reshape(-1)
