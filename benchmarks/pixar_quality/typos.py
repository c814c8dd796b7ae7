"""Queries with typing errors: one or two edits in the longest words, the same for the same seed.

An edit leaves out a letter, swaps two neighbours, doubles a letter, or hits a key beside the right
one; a word keeps its first letter and stays a word of letters. Short words are left alone.
"""

from __future__ import annotations

import random
import re

WORD = re.compile(r"[^\W\d_]{4,}")
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_TRIES = 20


def add_typos(text: str, *, seed: int) -> str:
    """Misspell the longest word, and in half of the texts the second longest too.

    >>> add_typos("when did the oil crisis begin", seed=0)
    'when did the oil crosis begin'
    >>> add_typos("who is it", seed=0)
    'who is it'
    """
    chance = random.Random(f"{seed} {text}")
    words = sorted(WORD.finditer(text), key=lambda each: (-len(each[0]), each.start()))
    chosen = words[: chance.choice((1, 2))]
    for word in sorted(chosen, key=lambda each: -each.start()):  # from the end, so places hold
        text = text[: word.start()] + misspell(word[0], chance) + text[word.end() :]
    return text


def misspell(word: str, chance: random.Random) -> str:
    """Make one edit after the first letter; the word comes out changed, unless no try changes it.

    >>> misspell("crisis", random.Random(3))
    'crsiis'
    """
    for _ in range(_TRIES):
        at = chance.randrange(1, len(word))
        found = chance.choice((_leave_out, _swap, _double, _miss))(word, at, chance)
        if found != word:
            return found
    return word


def _leave_out(word: str, at: int, _chance: random.Random) -> str:
    return word[:at] + word[at + 1 :]


def _swap(word: str, at: int, _chance: random.Random) -> str:
    return word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]


def _double(word: str, at: int, _chance: random.Random) -> str:
    return word[:at] + word[at] + word[at:]


def _miss(word: str, at: int, chance: random.Random) -> str:
    """Hit a key beside; a letter that is on no such keyboard stays."""
    for row in ROWS:
        place = row.find(word[at].lower())
        if place >= 0:
            beside = row[max(0, place - 1) : place] + row[place + 1 : place + 2]
            return word[:at] + chance.choice(beside) + word[at + 1 :]
    return word
