"""Tell the stops that end sentences from those of abbreviations, initials and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A stop, with the quotes and brackets that close after it; the CJK stops need no space.
_CLOSERS = r"[\"'”’»)\]}」』）】》〉]"
_STOPS = ".!?…؟۔।"
_STOP = re.compile(rf"(?<![{_STOPS}])[{_STOPS}]++{_CLOSERS}*+\s++|[。！？｡]++{_CLOSERS}*+\s*+")
# In text with spaces, found faster: at the first stop of several if it is not begun among them.
_SPACED_STOP = re.compile(rf"[{_STOPS}][{_STOPS}]*+{_CLOSERS}*+\s++")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\S+",
        "al approx bzw ca cf co corp dept dipl dr ed eds eq eqs esp est etc fig figs gen gov hr inc"
        " jr lt ltd mr mrs ms mt ph.d prof resp rev sen sgt sr st tab usw vgl viz vs",
    )
)
_BEFORE_NUMBERS = frozenset(("abs", "art", "ch", "no", "nos", "nr", "p", "pp", "sec", "vol"))
_LONGEST_ABBREVIATION = 12
_LOOK_BACK = (300, 1_500, 10**9)  # characters, as most sentences are short


def find_sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Find where the sentences of a stretch end, but for its last; where in doubt, none does."""
    for match in _STOP.finditer(text, start, end):
        after = match.end()
        if after < end and _ends_sentence(text, start, match.start(), after):
            yield after


def find_last_sentence_end(text: str, start: int, limit: int, *, since: int) -> int | None:
    """Find the last of the ends that `find_sentence_ends` finds from `start`, up to `limit`.

    A sentence must begin at `since`, and a word beyond it at `limit`; the text must be of a script
    that writes spaces. Then a stop is what it is whatever comes before, and the last few tell.
    """
    for width in _LOOK_BACK:
        begin = max(since, limit - width)
        while begin > since and text[begin - 1] in _STOPS:
            begin -= 1
        for match in reversed(list(_SPACED_STOP.finditer(text, begin, limit))):
            if _ends_sentence(text, start, match.start(), match.end()):
                return match.end()
        if begin == since:
            break
    return None


def _ends_sentence(text: str, start: int, stop: int, after: int) -> bool:
    """Whether the stop at `stop` ends a sentence, given that the next begins at `after`.

    It does not before a lower-case letter, nor after an abbreviation, an initial, or a number of
    one or two digits (a list's or an ordinal: 3. Oktober).
    """
    if text[after].islower():
        return False
    if text[stop] != "." or not text[stop + 1].isspace():
        return True
    before = text[max(start, stop - _LONGEST_ABBREVIATION) : stop].split()
    word = before[-1].lstrip("([{\"'“‘«").lower() if before else ""
    if word in _BEFORE_NUMBERS:
        return not text[after].isdigit()
    return not (_is_initials(word) or word in _ABBREVIATIONS or (word.isdigit() and len(word) < 3))


def _is_initials(word: str) -> bool:
    """Whether a word is single letters between stops.

    >>> _is_initials("u.s"), _is_initials("k"), _is_initials("us")
    (True, True, False)
    """
    return all(len(letter) == 1 and letter.isalpha() for letter in word.split("."))
