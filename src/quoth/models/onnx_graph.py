"""Networks written down for ONNX Runtime: operators and constants, in the bytes of an ONNX model.

Only what is needed of the format, which is protocol buffers: messages of numbered fields, each a
number, four bytes or a string of bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MICROSOFT = "com.microsoft"
"""The domain of operators that ONNX Runtime adds to the standard."""

_IR_VERSION, _OPSET = 9, 20
_NUMBER, _BYTES, _FOUR_BYTES = 0, 2, 5
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}

Attribute = int | float


class OnnxGraph:
    """A graph that grows by one operator at a time."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: dict[str, tuple[bytes, NDArray[np.generic]]] = {}
        self._inputs: list[bytes] = []
        self._count = 0

    def input(self, name: str, dtype: str, num_dimensions: int) -> str:
        """Add an input of any size; returns its name."""
        self._inputs.append(_value(name, dtype, num_dimensions))
        return name

    def constant(self, name: str, array: NDArray[np.generic]) -> str:
        """Add a constant, once for each name; returns its name."""
        if name not in self._constants:
            dimensions = b"".join(_number(1, each) for each in array.shape)
            head = dimensions + _number(2, _TYPES[array.dtype.name]) + _text(8, name)
            self._constants[name] = (
                head + _key(9, _BYTES) + _varint(array.nbytes),
                np.ascontiguousarray(array).reshape(-1),
            )
        return name

    def add(
        self, operator: str, inputs: Sequence[str], *, domain: str = "", **has: Attribute
    ) -> str:
        """Add an operator with one output; returns the output's name."""
        return self.add_many(operator, inputs, 1, domain=domain, **has)[0]

    def add_many(
        self,
        operator: str,
        inputs: Sequence[str],
        count: int,
        *,
        domain: str = "",
        **has: Attribute,
    ) -> list[str]:
        """Add an operator with several outputs; returns their names."""
        outputs = [f"{operator} {self._count + at}" for at in range(count)]
        self._count += count
        parts = [_text(1, each) for each in inputs] + [_text(2, each) for each in outputs]
        parts += [_text(4, operator), _text(7, domain)]
        parts += [_bytes(5, _attribute(name, value)) for name, value in has.items()]
        self._nodes.append(b"".join(parts))
        return outputs

    def model(self, outputs: Sequence[tuple[str, str, int]]) -> bytes:
        """Return the model that has these outputs: name, type and number of dimensions of each."""
        parts: list[bytes | memoryview] = [_bytes(1, each) for each in self._nodes]
        for head, array in self._constants.values():
            parts += [_key(5, _BYTES) + _varint(len(head) + array.nbytes) + head]
            parts += [array.view(np.uint8).data]  # copied once only, below
        parts += [_text(2, "graph"), *(_bytes(11, each) for each in self._inputs)]
        parts += [_bytes(12, _value(*each)) for each in outputs]
        length = sum(len(each) for each in parts)
        domains = ((_OPSET, ""), (1, MICROSOFT))
        opsets = [_bytes(8, _text(1, domain) + _number(2, at)) for at, domain in domains]
        version = _number(1, _IR_VERSION)
        return b"".join([version, _key(7, _BYTES) + _varint(length), *parts, *opsets])


def _value(name: str, dtype: str, num_dimensions: int) -> bytes:
    sizes = [_bytes(1, _text(2, f"{name} {at}")) for at in range(num_dimensions)]
    tensor = _number(1, _TYPES[dtype]) + _bytes(2, b"".join(sizes))
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _key(2, _FOUR_BYTES) + struct.pack("<f", value) + _number(20, 1)
    return _text(1, name) + _number(3, value) + _number(20, 2)


def _number(field: int, value: int) -> bytes:
    return _key(field, _NUMBER) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(value)) + value


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    """Write a number in groups of seven bits, the least first; negative ones as of 64 bits.

    >>> _varint(1).hex(), _varint(300).hex(), len(_varint(-1))
    ('01', 'ac02', 10)
    """
    value &= (1 << 64) - 1
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
