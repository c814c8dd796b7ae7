"""Normalise short texts and split them into words whose concatenation is the text again.

A normalised text is in Unicode form NFKC, with straight quotation marks, lower case (unless told
otherwise), single spaces, none at either end. It is cut with one space put in front, so that every
word carries its leading space and a word looks the same at the start of a text as within it.

A word is, following TokenMonster's `strict` mode, one of
    letters, with single apostrophes between them      " don't"
    digits                                             " 2024"
    one character that is neither, however often       " (" or "..."
with the space before it, if any: " state-of-the-art" is " state" "-" "of" "-" "the" "-" "art". Only
words of letters that follow a space are put together to phrases. Combining marks count as letters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.phrases.compiled import compiled

Bytes = NDArray[np.uint8]
Ids = NDArray[np.int32]
Longs = NDArray[np.int64]

SPACE = 32
LETTER = 1
DIGIT = 2
APOSTROPHE = 3  # any other character is 0

_STRAIGHT = str.maketrans("‘’‛“”„‟", '\'\'\'""""')


@dataclass(frozen=True, slots=True)
class Strings:
    """Byte strings in one array: string i is `content[offsets[i] : offsets[i + 1]]`."""

    content: Bytes
    offsets: Longs

    def __len__(self) -> int:
        return len(self.offsets) - 1


def normalise(text: str, *, lowercase: bool = True) -> str:
    """Give a text the one form in which it is cut, and given back once joined.

    >>> normalise("  What’s  the\\tBest ﬁlm? ")
    "what's the best film?"
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_STRAIGHT)
        text = text.encode("utf-8", "replace").decode()  # a lone surrogate becomes "?"
        if lowercase:
            text = unicodedata.normalize("NFKC", text.lower())
    elif lowercase:
        text = text.lower()
    return " ".join(text.split())


def encode_texts(texts: Sequence[str], *, lowercase: bool) -> Strings:
    """Normalise texts into bytes, each with its leading space; an empty one stays empty."""
    normal = [normalise(text, lowercase=lowercase) for text in texts]
    return join_strings([f" {text}".encode() if text else b"" for text in normal])


def join_strings(strings: Sequence[bytes]) -> Strings:
    """Put byte strings into one array."""
    offsets = np.zeros(len(strings) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, strings), dtype=np.int64, count=len(strings)), out=offsets[1:])
    return Strings(np.frombuffer(b"".join(strings), dtype=np.uint8), offsets)


def take_strings(strings: Strings, chosen: NDArray[np.int64]) -> Strings:
    """Copy some of the strings, in the order given."""
    offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(np.diff(strings.offsets)[chosen], out=offsets[1:])
    return Strings(_copy_strings(strings.content, strings.offsets, chosen, offsets), offsets)


@compiled
def _copy_strings(content: Bytes, old: Longs, chosen: Longs, offsets: Longs) -> Bytes:
    copied = np.empty(offsets[-1], dtype=np.uint8)
    for at in range(len(chosen)):
        start = old[chosen[at]]
        for place in range(offsets[at], offsets[at + 1]):
            copied[place] = content[start + place - offsets[at]]
    return copied


def count_characters(strings: Strings) -> Ids:
    """Count the characters of each string: its bytes, less those that continue a character."""
    before = np.zeros(len(strings.content) + 1, dtype=np.int64)
    np.cumsum((strings.content & 0xC0) != 0x80, out=before[1:])
    return np.diff(before[strings.offsets]).astype(np.int32)


def find_inner_spaces(strings: Strings) -> NDArray[np.bool_]:
    """Tell the strings of several words: those with a space after their first byte."""
    inner = strings.content == SPACE
    starts = strings.offsets[:-1]
    inner[starts[starts < len(inner)]] = False  # an empty last string starts at the end
    before = np.zeros(len(inner) + 1, dtype=np.int64)
    np.cumsum(inner, out=before[1:])
    return np.diff(before[strings.offsets]) > 0


@cache
def character_kinds() -> Bytes:
    """Tell letters, digits and the apostrophe from all else, by code point."""
    kinds = np.zeros(0x110000, dtype=np.uint8)
    by_category = {"L": LETTER, "M": LETTER, "N": DIGIT}
    for code in range(0x110000):
        kinds[code] = by_category.get(unicodedata.category(chr(code))[0], 0)
    kinds[ord("'")] = APOSTROPHE
    kinds.flags.writeable = False
    return kinds


def split_words(texts: Strings) -> tuple[Longs, Longs]:
    """Find where each word of each text starts, and each text's first word; both with an end."""
    return _split_all(texts.content, texts.offsets, character_kinds())


@compiled
def _split_all(content: Bytes, offsets: Longs, kinds: Bytes) -> tuple[Longs, Longs]:
    starts = np.empty(len(content) + 1, dtype=np.int64)
    firsts = np.empty(len(offsets), dtype=np.int64)
    num_words = 0
    for text in range(len(offsets) - 1):
        firsts[text] = num_words
        found = starts[num_words:]
        num_words += find_words(content, offsets[text], offsets[text + 1], kinds, found)
    firsts[len(offsets) - 1] = num_words
    starts[num_words] = len(content)
    return starts[: num_words + 1].copy(), firsts


@compiled
def find_words(content: Bytes, start: int, end: int, kinds: Bytes, starts: Longs) -> int:
    """Write where the words of one text start, and return how many there are."""
    num_words = 0
    at = start
    while at < end:
        starts[num_words] = at
        num_words += 1
        if content[at] == SPACE and at + 1 < end:
            at += 1
        code, at = read_character(content, at)
        kind = kinds[code]
        while at < end:
            following, after = read_character(content, at)
            if kind == LETTER and kinds[following] == APOSTROPHE and after < end:
                following, after = read_character(content, after)
                if kinds[following] != LETTER:
                    break
            elif kind in (LETTER, DIGIT):
                if kinds[following] != kind:
                    break
            elif following != code:
                break
            at = after
    return num_words


@compiled
def starts_phrase(content: Bytes, start: int, end: int, kinds: Bytes) -> bool:
    """Tell whether a word may stand in a phrase with others: a space, then letters."""
    if content[start] != SPACE or start + 1 >= end:
        return False
    code, _ = read_character(content, start + 1)
    return bool(kinds[code] == LETTER)


@compiled
def read_character(content: Bytes, at: int) -> tuple[int, int]:
    """Read one character of well-formed UTF-8: its code point, and where the next one starts."""
    first = int(content[at])
    if first < 0x80:
        return first, at + 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | (int(content[at + 1]) & 0x3F), at + 2
    code = int(content[at + 1] & 0x3F) << 6 | int(content[at + 2] & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | code, at + 3
    return (first & 0x07) << 18 | code << 6 | int(content[at + 3] & 0x3F), at + 4
