"""Seeded mutations of bytes and texts: what a fuzzer does to real inputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_NUMBERS = (b"0", b"-1", b"65536", b"4294967295", b"99999999999999999999", b"1e999", b"NaN")
_BYTES = (b"\0", b"\xff", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"<", b"&", b"(", b"{", b"[", b'"')


def mutate(data: bytes, chance: random.Random, *, others: Sequence[bytes] = ()) -> bytes:
    """Change some bytes: flip, cut, repeat, insert, replace numbers, or splice with another file.

    >>> mutate(b"the barn owl", random.Random(0)) != b"the barn owl"
    True
    """
    for _time in range(chance.choice((1, 1, 2, 4, 16))):
        data = chance.choice(_WAYS)(data, chance)
    if others and chance.random() < 0.2:
        other = chance.choice(others)
        data = data[: _place(data, chance)] + other[_place(other, chance) :]
    return data


def mutate_text(text: str, chance: random.Random, *, parts: Sequence[str]) -> str:
    """Change a text by taking away, repeating and inserting parts of its language."""
    pieces = list(text)
    for _time in range(chance.randint(1, 8)):
        at = chance.randint(0, len(pieces))
        how = chance.random()
        if how < 0.5:
            pieces[at:at] = list(chance.choice(parts))
        elif how < 0.7:
            del pieces[at : at + chance.randint(1, 5)]
        elif how < 0.85:
            pieces[at:at] = pieces[at : at + chance.randint(1, 8)] * chance.choice((1, 2, 40))
        else:
            pieces.insert(at, chr(chance.choice((0, 9, 34, 40, 0x202E, 0x1F989, 0xFFFF, 0xE9))))
    return "".join(pieces)


def _place(data: bytes, chance: random.Random) -> int:
    return chance.randint(0, len(data))


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    start = _place(data, chance)
    return data[:start] + data[start + chance.choice((1, 4, 64, 4096)) :]


def _end(data: bytes, chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start = _place(data, chance)
    part = data[start : start + chance.choice((1, 8, 200))]
    return data[:start] + part * chance.choice((2, 9, 300)) + data[start:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    start = _place(data, chance)
    return data[:start] + chance.choice((*_BYTES, *_NUMBERS)) + data[start:]


def _renumber(data: bytes, chance: random.Random) -> bytes:
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return _insert(data, chance)
    at = chance.choice(digits)
    return data[:at] + chance.choice(_NUMBERS) + data[at + 1 :]


_WAYS: Sequence[Callable[[bytes, random.Random], bytes]] = (
    *(_flip, _flip, _cut, _end, _repeat, _insert, _renumber),
)
