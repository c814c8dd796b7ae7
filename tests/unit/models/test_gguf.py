from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from quoth.errors import Damaged
from quoth.models.gguf import read_gguf

F32, Q4_1, Q8_0 = 0, 3, 8


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def setting(name: str, kind: int, content: bytes) -> bytes:
    return string(name) + struct.pack("<I", kind) + content


def file_of(tensors: dict[str, tuple[tuple[int, ...], int, bytes]], settings: list[bytes]) -> bytes:
    """Write version 3 of the format: what tensors are, then their bytes, each at 32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(settings)) + b"".join(settings)
    data = b""
    for name, (shape, kind, content) in tensors.items():
        head += string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def test_settings_of_all_kinds(tmp_path: Path) -> None:
    texts = struct.pack("<IQ", 8, 2) + string("é") + string("")
    settings = [
        setting("count", 4, struct.pack("<I", 7)),
        setting("share", 6, struct.pack("<f", 0.5)),
        setting("flag", 7, b"\x01"),
        setting("texts", 9, texts),
        setting("far", 10, struct.pack("<Q", 1 << 40)),
    ]
    (tmp_path / "a.gguf").write_bytes(file_of({}, settings))
    found = read_gguf(tmp_path / "a.gguf").settings
    assert found == {"count": 7, "share": 0.5, "flag": True, "texts": ["é", ""], "far": 1 << 40}


def test_tensors_are_widened_block_by_block(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    plain = chance.normal(size=(2, 3)).astype("<f4")
    halves = chance.integers(0, 16, size=(4, 32))  # (blocks, numbers)
    bytes_ = chance.integers(-127, 128, size=(4, 32))
    scale, least = np.float16([0.5, 0.25, 2.0, 1.0]), np.float16([-1.0, 0.0, 3.0, -0.5])
    four, eight = b"", b""
    for at in range(4):
        packed = bytes(int(halves[at, i]) | int(halves[at, i + 16]) << 4 for i in range(16))
        four += scale[at].tobytes() + least[at].tobytes() + packed
        eight += scale[at].tobytes() + bytes_[at].astype("i1").tobytes()
    content = file_of(
        {
            "plain": ((2, 3), F32, plain.tobytes()),
            "four": ((2, 64), Q4_1, four),
            "eight": ((4, 32), Q8_0, eight),
        },
        [],
    )
    (tmp_path / "a.gguf").write_bytes(content)
    found = read_gguf(tmp_path / "a.gguf").tensors
    assert np.array_equal(found["plain"], plain)
    expected = scale.astype(float)[:, None] * halves + least.astype(float)[:, None]
    assert np.array_equal(found["four"], expected.reshape(2, 64))
    assert np.array_equal(found["eight"], scale.astype(float)[:, None] * bytes_)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GGML" + bytes(40), "not a GGUF file"),
        (b"GGUF" + struct.pack("<I", 2) + bytes(40), "not a GGUF file"),
        (file_of({"x": ((8,), F32, bytes(32))}, [])[:-4], "cut short"),
        (file_of({"x": ((32,), 12, bytes(32))}, []), "x is of unknown kind 12"),
        (file_of({}, [setting("x", 77, b"")]), "setting of unknown kind 77"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(Damaged, match=message):
        read_gguf(tmp_path / "a.gguf")
