"""Recognise near-identical texts by small signatures.

A signature is the bottom-k sketch of a text's shingles: of all runs of four words, in lower case
and without punctuation, the 128 smallest of their hashes (Broder 1997, with one hash function as in
Cohen and Kaplan 2007). The share of the smallest hashes of two texts together that both have
estimates the Jaccard similarity of their shingles, with a standard error of 0.027 at 0.9.
"""

from __future__ import annotations

import functools
import re
import struct
import zlib
from array import array
from collections.abc import Iterable

from quoth.compiled import is_compiled

SHINGLE_WORDS = 4
SKETCH_SIZE = 128
LEAST_WORDS = 20
"""A shorter text has no signature: a word more or less would count too much."""

MOST_CHARACTERS = 400_000
"""So much of a text is looked at, which bounds what a signature costs."""

SIGNATURE_FORM = (SHINGLE_WORDS, SKETCH_SIZE, LEAST_WORDS, MOST_CHARACTERS)
"""The same numbers, as compiled code takes them."""

_LOOSE = "surrogatepass"  # halves of characters, which are no part of a word
_WORD = re.compile(r"\w+")
_WORDS = bytes(
    byte if chr(byte).isalnum() or byte == ord("_") else ord(" ") for byte in range(128)
).lower() + bytes(range(128, 256))


def make_signature(texts: Iterable[str]) -> bytes:
    """Make the signature of some texts together; empty where they are too short for one.

    >>> len(make_signature(["short"])), len(make_signature(["word " * 30]))
    (0, 4)
    """
    text = "\n".join(texts)[:MOST_CHARACTERS]
    if not is_compiled():
        return sketch_slowly(_split(text))
    from quoth.native import sketch

    parted = text.encode().translate(_WORDS) if text.isascii() else b" ".join(_split(text))
    return sketch(parted, SHINGLE_WORDS, SKETCH_SIZE, LEAST_WORDS)


def sketch_slowly(words: list[bytes]) -> bytes:
    """Make a signature without compiled code.

    >>> len(sketch_slowly([b"word"] * 30))
    4
    """
    if len(words) < LEAST_WORDS:
        return b""
    runs = zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False)
    hashes = set(map(zlib.crc32, map(b" ".join, runs)))  # all of it without a line of Python
    return _write(sorted(hashes)[:SKETCH_SIZE])


def _split(text: str) -> list[bytes]:
    """List the words of a text in lower case; a regular expression sees what is not plain alone.

    >>> _split("The owl's snake_case"), _split("Œuvre no. 1")
    ([b'the', b'owl', b's', b'snake_case'], [b'\\xc5\\x93uvre', b'no', b'1'])
    """
    if text.isascii():
        return text.encode().translate(_WORDS).split()
    words: list[bytes] = []
    for chunk in text.lower().encode(errors=_LOOSE).translate(_WORDS).split():
        if chunk.isascii():
            words.append(chunk)
        else:
            words += [word.encode() for word in _WORD.findall(chunk.decode(errors=_LOOSE))]
    return words


def similarity(first: bytes, second: bytes) -> float:
    """Estimate which share of their shingles two texts have in common, from 0 to 1.

    >>> one = make_signature([" ".join(map(str, range(100)))])
    >>> similarity(one, one), similarity(one, b"")
    (1.0, 0.0)
    """
    if not first or not second:
        return 0.0
    if first == second:
        return 1.0
    own, other = set(read_hashes(first)), set(read_hashes(second))
    smallest = sorted(own | other)[:SKETCH_SIZE]
    return len((own & other).intersection(smallest)) / len(smallest)


def are_similar(first: bytes, second: bytes, *, least: float) -> bool:
    """Tell whether two texts have at least such a similarity; sooner where they have far less.

    >>> one, other = (make_signature([" ".join(map(str, range(n, n + 90)))]) for n in (0, 1))
    >>> are_similar(one, other, least=0.9), are_similar(one, other, least=0.99)
    (True, False)
    """
    own, other = _hash_set(first), _hash_set(second)
    common = len(own & other)
    size = min(SKETCH_SIZE, len(own) + len(other) - common)
    # Of the smallest hashes, no more than these can be common.
    return bool(size) and common / size >= least and similarity(first, second) >= least


@functools.lru_cache(maxsize=512)  # some 6 MB
def _hash_set(signature: bytes) -> frozenset[int]:
    return frozenset(read_hashes(signature))


def smallest_hashes(signature: bytes, count: int) -> tuple[int, ...]:
    """Return the smallest hashes of a signature, at most so many.

    >>> smallest_hashes(_write([3, 5, 8]), 2), smallest_hashes(b"", 2)
    ((3, 5), ())
    """
    return _numbers(min(count, len(signature) // 4)).unpack_from(signature)


@functools.cache
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f"={count}I")


def read_hashes(signature: bytes) -> array[int]:
    """Return the hashes of a signature, the smallest first."""
    hashes: array[int] = array("I")
    hashes.frombytes(signature)
    return hashes


def _write(hashes: list[int]) -> bytes:
    return array("I", hashes).tobytes()
