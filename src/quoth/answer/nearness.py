"""How near a stretch of text is to a question: by its telling words, or by vectors.

Words are compared by their first letters, six at most, which is stemming enough for a few
sentences and needs no language; names and numbers count double, as they are rarer than other words.
Vectors are those of a sentence encoder, which also sees the same thing said in other words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quoth.records import Span
from quoth.text.blocks import split_sentences
from quoth.text.closed_classes import STOP_WORDS

EncodeSentences = Callable[[Sequence[str]], NDArray[np.float32]]
"""Sentences to vectors (N, D), of any length."""

Numbers = NDArray[np.float64]

_WORD = re.compile(r"[^\W_]+")
_TIME = r"(?:\d{1,4}[/.-]\d\d?[/.-]\d{2,4},?[ T]+|\[)\d\d?:\d\d"  # of a line of a chat or log
_BELOW = rf"\n[ \t\r>]*(?:\n|\||#{{1,6}}\s|[-*+•][ \t]|\[?{_TIME}|"  # begins a block; and a number
_BLOCK = re.compile(
    r">[> \t\r]*(?:\n|\Z)|#{1,6}[ \t][^\n]*|\|[^\n]*"  # a quoted empty line, a heading, a row
    r"|/\*(?:(?!\*/|\n[ \t\r]*\n)[\s\S])*"  # a comment, whose lines may begin with a star
    rf"|\d{{1,3}}[.)][ \t](?:(?!{_BELOW}\d{{1,3}}[.)][ \t]))[\s\S])*"  # an item, up to the next
    rf"|\S(?:(?!{_BELOW}1[.)][ \t]))[\s\S])*"  # else a number may be that of a day
)
_TABLE_RULE = re.compile(r"[ \t\r]*\n[ \t]*\|[ \t:|]*-[ \t:|-]*(?:[\r\n]|$)")  # under its head
_QUESTION = re.compile(r"[?？؟][\s\"'”’»)\]*_|]*\Z")
_STEM = 6


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a passage: the passage's number, the stretch there, and its text."""

    passage: int
    span: Span
    text: str


def telling_words(question: str) -> dict[str, float]:
    """Return the stems of a question's telling words, names and numbers with weight 2.

    >>> telling_words("When does the owl hunt in 1970 near Ravenna?")
    {'owl': 1.0, 'hunt': 1.0, '1970': 2.0, 'near': 1.0, 'ravenn': 2.0}
    """
    weights: dict[str, float] = {}
    for at, found in enumerate(_WORD.finditer(question)):
        word = found[0]
        if word.casefold() in STOP_WORDS:
            continue
        is_rare = word[0].isdigit() or (at > 0 and word[0].isupper())
        stem = _stem(word)
        weights[stem] = max(weights.get(stem, 0.0), 2.0 if is_rare else 1.0)
    return weights


def coverage(weights: Mapping[str, float], text: str) -> float:
    """Return the weight of the words that a text holds, as a share; 1 where there are none.

    >>> coverage(telling_words("Which owls hunt in Ravenna?"), "An owl hunted.")
    0.25
    """
    total = sum(weights.values())
    held = stems(text)
    return sum(weight for stem, weight in weights.items() if stem in held) / total if total else 1.0


def stems(text: str) -> set[str]:
    """Return the stems of all words of a text."""
    return set(count_stems(text))


def count_stems(text: str) -> Counter[str]:
    """Count the stems of all words of a text.

    >>> count_stems("An owl and owls")
    Counter({'owl': 2, 'an': 1, 'and': 1})
    """
    return Counter(_stem(found) for found in _WORD.findall(text))


def are_alike(one: set[str], other: set[str]) -> bool:
    """Whether all stems of one answer stand in the other; not where either has none.

    >>> are_alike({"poe"}, {"edgar", "poe"}), are_alike({"poe"}, {"swift"}), are_alike(set(), set())
    (True, False, False)
    """
    return bool(one and other) and (one <= other or other <= one)


def sentences_of(passages: Sequence[str]) -> list[Sentence]:
    r"""Return the sentences of all passages, in order; an empty line ends one, as a stop does.

    A heading is one, and so is each row of a table but its head; an item of a list begins one, and
    so does a line that begins with day and time. What holds no word is none.

    >>> [each.text for each in sentences_of(["# Owls\n\nOwls hunt. Hens sleep.", "Ravens speak."])]
    ['# Owls', 'Owls hunt.', 'Hens sleep.', 'Ravens speak.']
    >>> [each.text for each in sentences_of(["# Owls\nOwls hunt."])]
    ['# Owls', 'Owls hunt.']
    >>> [each.text for each in sentences_of(["Owls\r\n\r\nThey hunt.\r\n"])]
    ['Owls', 'They hunt.']
    >>> [each.text for each in sentences_of(["Eggs:\n| owl | hen |\n|---|---|\n| 5 | 300 |"])]
    ['Eggs:', '| 5 | 300 |']
    >>> [each.text for each in sentences_of(["1. owls\n2. hens\n   in barns\n- 7 ravens"])]
    ['1. owls', '2. hens\n   in barns', '- 7 ravens']
    >>> [each.text for each in sentences_of(["Sie kam am\n3. Mai.", "/* An owl\n * hunts.\n */"])]
    ['Sie kam am\n3. Mai.', '/* An owl\n * hunts.']
    >>> [each.text for each in sentences_of(["[1/5/24, 8:02] A: so?\n[1/5/24, 8:03] B: ok\n:)"])]
    ['[1/5/24, 8:02] A: so?', '[1/5/24, 8:03] B: ok\n:)']
    >>> [each.text for each in sentences_of(["> Dear Bo,\n>\n> owls\n> hunt"])]
    ['> Dear Bo,', '> owls\n> hunt']
    """
    return [
        Sentence(number, Span(start, start + len(found)), found)
        for number, text in enumerate(passages)
        for block in _BLOCK.finditer(text)
        for span in split_sentences(block[0])
        for start, found in [(block.start() + span.start, block[0][span.start : span.end])]
        if holds_word(found) and not _TABLE_RULE.match(text, start + len(found))
    ]


def holds_word(text: str) -> bool:
    """Whether a stretch holds a word, or a number, rather than marks alone.

    >>> holds_word("7 %"), holds_word(". --")
    (True, False)
    """
    return _WORD.search(text) is not None


def is_question(text: str) -> bool:
    """Whether a sentence asks, whatever marks and closes it.

    >>> is_question("| **Do owls hunt?** |"), is_question("Do owls hunt? Yes.")
    (True, False)
    """
    return _QUESTION.search(text) is not None


def sentence_cosines(
    question: str, sentences: Sequence[Sentence], *, encode: EncodeSentences
) -> Numbers:  # (N,)
    """Return the cosine of a question and each sentence."""
    if not sentences:
        return np.zeros(0)
    vectors = encode([question, *(each.text for each in sentences)]).astype(np.float64)
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    found: Numbers = units[1:] @ units[0]
    return found


def rank_sentences(question: str, sentences: Sequence[str]) -> list[int]:
    """Order sentences by nearness to a question; where equal, as they stand.

    A word counts by how few of the sentences hold it, and a sentence inherits some of its
    neighbours' nearness: what answers often stands beside what repeats the question.
    """
    weights = telling_words(question)
    held = [stems(each) & weights.keys() for each in sentences]
    counts = Counter(stem for each in held for stem in each)
    rarity = {
        stem: weights[stem] * math.log1p(len(sentences) / count) for stem, count in counts.items()
    }
    own = [sum(rarity[stem] for stem in sorted(each)) for each in held]
    near = [
        score + 0.3 * max(own[max(0, at - 1) : at + 2], default=0.0) for at, score in enumerate(own)
    ]
    return sorted(range(len(sentences)), key=lambda at: (-near[at], at))


def _stem(word: str) -> str:
    return word.casefold().rstrip("s")[:_STEM] or word.casefold()
