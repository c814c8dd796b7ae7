"""Offer a correction for a query word that no document has, from the collection's own words.

All terms one edit away are looked up; for longer words, terms that begin with the same two letters
are compared as well, up to two edits. One edit is a letter more, less or other, or two neighbours
exchanged (optimal string alignment). A frequent term may be farther away than a rare one: two edits
against one need a hundred times the documents. A word that the encoder's vocabulary contains whole
is rarely a typo, so it stays; so do the words that questions are made of, such as "does", which a
small collection may lack. A correction is written as documents or that vocabulary write it: of
the words with its term, the one nearest to what was typed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from quoth.text.closed_classes import STOP_WORDS
from quoth.text.words import Analyser, Word

LEAST_LETTERS = 4
_TWO_EDITS_FROM = 7
_WEIGHT_OF_EDIT = 2.0  # in powers of ten of the number of documents
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SAME_LETTERS = 2
_ENDINGS = ("", "e", "s", "es", "y", "ing", "ed")

Scan = Callable[[str, int, int], Iterable[tuple[str, int]]]
"""Lists terms with a beginning, from one length to another, each with its number of documents."""

LookUp = Callable[[Sequence[str]], Mapping[str, int]]
"""Maps those terms that there are to their numbers of documents."""

IsWord = Callable[[str], bool]
"""Says whether a word is known to be one, whatever the collection holds."""

Holding = Callable[[str], Iterable[str]]
"""Returns texts of the collection in which the term of a word stands."""


def correct_query(
    text: str,
    unknown: Iterable[str],
    *,
    analyser: Analyser,
    scan: Scan,
    look_up: LookUp,
    is_word: IsWord = lambda _written: False,
    holding: Holding = lambda _word: (),
) -> str:
    """Write a query with corrections for its unknown terms; empty where there are none."""
    missing, corrected, at = set(unknown), [], 0
    for word in analyser.words(text):
        better = ""
        is_new = word.start >= at  # no part of a word that was corrected
        typed = text[word.start : word.end].casefold()
        if word.term in missing and is_new and not (typed in STOP_WORDS or is_word(typed)):
            better = _correct_word(word, text, analyser=analyser, scan=scan, look_up=look_up)
        if better:
            known = (better,) if is_word(better) else ()
            better = _as_written(better, typed, (*holding(better), *known), analyser)
            corrected += [text[at : word.start], better]
            at = word.end
    return "".join((*corrected, text[at:])) if corrected else ""


def edit_distance(first: str, second: str, *, most: int) -> int:
    """Count the edits between two words; more than `most` counts as one more than that.

    >>> [edit_distance("retreival", each, most=2) for each in ("retrieval", "retreat", "owl")]
    [1, 3, 3]
    """
    return _distance_by_bits(first, _letter_bits(first), second, most=most)


def _letter_bits(word: str) -> dict[str, int]:
    """Return the places of each letter of a word, as bits."""
    bits: dict[str, int] = {}
    for at, letter in enumerate(word):
        bits[letter] = bits.get(letter, 0) | 1 << at
    return bits


def _distance_by_bits(first: str, letters: Mapping[str, int], second: str, *, most: int) -> int:
    """Compute `edit_distance` one letter of the second word at a time (Hyyrö 2003).

    The column of the table of distances is kept as two numbers: where it rises by one from row to
    row, and where it falls.
    """
    if abs(len(first) - len(second)) > most:
        return most + 1
    if not first:
        return len(second)
    every = (1 << len(first)) - 1
    last = every - (every >> 1)
    rises, falls, diagonal, before, distance = every, 0, 0, 0, len(first)
    for letter in second:
        match = letters.get(letter, 0)
        exchanged = ((~diagonal & match) << 1) & before
        diagonal = (((match & rises) + rises) ^ rises) | match | falls | exchanged
        right_rises = (falls | ~(diagonal | rises)) & every
        right_falls = diagonal & rises
        distance += bool(right_rises & last) - bool(right_falls & last)
        right_rises = (right_rises << 1) | 1
        rises = ((right_falls << 1) | ~(diagonal | right_rises)) & every
        falls = right_rises & diagonal & every
        before = match
    return min(distance, most + 1)


def _correct_word(word: Word, text: str, *, analyser: Analyser, scan: Scan, look_up: LookUp) -> str:
    """Find the best correction of one word, as a user would write it; empty where none is near."""
    written = text[word.start : word.end].casefold()
    if len(written) < LEAST_LETTERS or not written.isalpha():
        return ""
    most = 2 if len(written) >= _TWO_EDITS_FROM else 1
    spellings = {word.term, written}
    known = [(each, _letter_bits(each)) for each in spellings]
    best: tuple[float, str] | None = None
    for term, documents in _candidates(spellings, most=most, scan=scan, look_up=look_up):
        distance = min(_distance_by_bits(*each, term, most=most) for each in known)
        if distance <= most and len(term) >= LEAST_LETTERS - 1:
            worth = math.log10(documents) - _WEIGHT_OF_EDIT * distance
            if best is None or (-worth, term) < best:
                best = (-worth, term)
    return "" if best is None else _spell(best[1], word.term, written, analyser)


def _candidates(
    spellings: Iterable[str], *, most: int, scan: Scan, look_up: LookUp
) -> Iterator[tuple[str, int]]:
    """List terms that may be near: all one edit away, and more that begin with the same letters."""
    words = sorted(spellings)
    yield from look_up([other for each in words for other in _edits(each)]).items()
    if most == 1:
        return
    masks = [_letters(each) for each in words]
    shortest, longest = min(map(len, words)) - most, max(map(len, words)) + most
    for beginning in sorted({each[:_SAME_LETTERS] for each in words}):
        for term, documents in scan(beginning, shortest, longest):
            own = _letters(term)
            if any((own ^ mask).bit_count() <= 2 * most for mask in masks):
                yield term, documents


def _letters(word: str) -> int:
    """Say which letters a word has, as bits; an edit changes two of them at most."""
    mask = 0
    for letter in word:
        mask |= 1 << (ord(letter) & 63)
    return mask


def _edits(word: str) -> Iterator[str]:
    """List the words one edit away.

    >>> found = set(_edits("nowl"))
    >>> [each in found for each in ("owl", "onwl", "noel", "nowls", "knowl", "own")]
    [True, True, True, True, True, False]
    """
    letters = sorted({*_LETTERS, *(each for letter in word for each in _neighbours(letter))})
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        yield from (f"{head}{letter}{tail}" for letter in letters)
        if tail:
            yield head + tail[1:]
            yield from (f"{head}{letter}{tail[1:]}" for letter in letters)
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]


@functools.cache
def _neighbours(letter: str) -> tuple[str, ...]:
    """List the small letters of a letter's script, as far as its block of 64 goes."""
    if letter in _LETTERS:
        return ()
    start = ord(letter) & ~63
    block = map(chr, range(start, start + 64))
    return tuple(each for each in block if each.isalpha() and each == each.casefold())


def _spell(term: str, wrong: str, written: str, analyser: Analyser) -> str:
    """Write a term as a word: with the ending that was typed, or another one that fits it."""
    typed = written[len(wrong) :] if written.startswith(wrong) else ""
    for ending in (typed, *_ENDINGS):
        if analyser.terms(term + ending) == [term]:
            return term + ending
    return term


def _as_written(word: str, typed: str, texts: Iterable[str], analyser: Analyser) -> str:
    """Return the word of these texts that has the same term and is nearest to what was typed.

    >>> from quoth.text.words import AnalyserConfig
    >>> texts = ["The renewal of a passport.", "Renewing takes weeks."]
    >>> _as_written("renew", "renewall", texts, Analyser(AnalyserConfig()))
    'renewal'
    """
    (term,) = analyser.terms(word)
    found = {
        text[each.start : each.end].casefold()
        for text in texts
        for each in analyser.words(text)
        if each.term == term
    }
    by_distance = {each: edit_distance(typed, each, most=len(typed)) for each in found}
    return min(sorted(found), key=by_distance.__getitem__, default=word)
