"""Cut a text into sentences, and long sentences into clauses: short texts that stand for it.

A sentence within the budget of words stays whole. A longer one is cut after commas, semicolons and
colons, before brackets and at dashes; neighbouring clauses are packed together while they fit, and
a clause that is itself too long is cut after the last word that fits. Headings and the items of
lists, which end with their line, are cut like sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from quoth.text.blocks import split_sentences

_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+•#]|\d+[.)])\s)")
_CLAUSE = re.compile(r"(?<=[,;:，；：、])\s+|\s+(?=[(\[])|\s+(?=[–—-]\s)")
_MARKS = re.compile(r"^(?:[-*+•#=~`>|\s]+|\d+[.)]\s)+|[#=~`|\s]+$")
_FEWEST = 4  # words; a shorter piece joins the one before it


def cut_clauses(text: str, *, most_words: int) -> list[str]:
    """Cut a text into pieces of a few words to `most_words`, in their order.

    >>> cut_clauses("Ravens, which are birds, hide food. They cache it far away.", most_words=6)
    ['Ravens, which are birds, hide food.', 'They cache it far away.']
    >>> cut_clauses("Ravens, which are clever birds, hide food.", most_words=5)
    ['Ravens, which are clever birds,', 'hide food.']
    >>> cut_clauses("# Food #\\n\\n- seeds, nuts and eggs\\n- carrion", most_words=9)
    ['Food', 'seeds, nuts and eggs', 'carrion']
    """
    pieces: list[str] = []
    for block in _BLOCK.split(text):
        own: list[list[str]] = []
        plain = _MARKS.sub("", block)
        for span in split_sentences(plain):
            for words in _cut_sentence(plain[span.start : span.end], most_words):
                if own and len(words) < _FEWEST and len(own[-1]) + len(words) <= most_words:
                    own[-1] += words
                else:
                    own.append(words)
        pieces += (" ".join(words) for words in own)
    return pieces


def _cut_sentence(sentence: str, most_words: int) -> Iterator[list[str]]:
    """Cut a sentence where it exceeds the budget, packing its clauses together."""
    words = sentence.split()
    if len(words) <= most_words:
        if words:
            yield words
        return
    packed: list[str] = []
    for clause in map(str.split, _CLAUSE.split(sentence)):
        if packed and len(packed) + len(clause) > most_words:
            yield packed
            packed = []
        packed += clause
        while len(packed) > most_words:
            yield packed[:most_words]
            packed = packed[most_words:]
    if packed:
        yield packed
