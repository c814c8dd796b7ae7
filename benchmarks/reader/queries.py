"""Queries made from passages, of kinds that natural pairs lack: long ones, keywords, sentences.

| kind | query | passage |
|---|---|---|
| sentence | a sentence of a passage | the passage, mostly without it |
| keywords | rare words of a passage, or its title's without stop words and some of them | it |
| verbose | the title and a sentence | the passage without that sentence |
| half | its first half | its second half |

Readers trained on titles and questions alone lost on such queries when they reranked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from quoth.answer.noun_phrases import STOP_WORDS
from quoth.text.blocks import split_sentences

SHARES = {"sentence": 0.35, "keywords": 0.35, "verbose": 0.15, "half": 0.15}
"""How often each kind is tried first."""

KEPT_SHARE = 0.15
"""Share of sentences that stay in their passage."""

_WORDS = re.compile(r"[^\W_][\w'’-]*")
_LEAST, _MOST = 6, 40


class MadeQuery(NamedTuple):
    """A query, the passage that belongs to it, and the kind it is of."""

    kind: str
    query: str
    passage: str


def make_query(
    title: str, text: str, counts: Mapping[str, int], chance: np.random.Generator
) -> MadeQuery | None:
    """Make a query of a passage and its title, which may be empty; None where no kind fits."""
    kinds, shares = list(SHARES), list(SHARES.values())
    for kind in chance.choice(kinds, size=len(kinds), replace=False, p=shares).tolist():
        if found := _KINDS[kind](title, text, counts, chance):
            return MadeQuery(kind, *found)
    return None


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count the texts that each word stands in."""
    return Counter(word for text in texts for word in set(_content(text)))


Made = tuple[str, str] | None


def _sentence(
    _title: str, text: str, _counts: Mapping[str, int], chance: np.random.Generator
) -> Made:
    cut = _cut_sentence(text, chance)
    if cut is None:
        return None
    return cut[0], text if chance.random() < KEPT_SHARE else cut[1]


def _verbose(
    title: str, text: str, _counts: Mapping[str, int], chance: np.random.Generator
) -> Made:
    cut = _cut_sentence(text, chance) if title else None
    return None if cut is None else (f"{title.rstrip('.')}. {cut[0]}", cut[1])


def _half(_title: str, text: str, _counts: Mapping[str, int], _chance: np.random.Generator) -> Made:
    spans = split_sentences(text)
    if len(spans) < 4:
        return None
    middle = spans[len(spans) // 2].start
    return text[:middle].strip(), text[middle:].strip()


def _keywords(
    title: str, text: str, counts: Mapping[str, int], chance: np.random.Generator
) -> Made:
    words = list(dict.fromkeys(_content(text)))
    wanted = int(chance.integers(2, 11))
    if len(words) < 2 * wanted:
        return None
    named = _content(title) if title and chance.random() < 0.6 else []
    if len(named) >= 2 and chance.random() < 0.4:
        return " ".join(named), text  # a title without stop words
    rarity = np.array([1.0 / np.sqrt(counts[word]) for word in words])
    drawn = chance.choice(len(words), size=wanted, replace=False, p=rarity / rarity.sum())
    places = drawn if chance.random() < 0.5 else np.sort(drawn)
    chosen = dict.fromkeys([*named, *(words[at] for at in places.tolist())])
    return " ".join(chosen), text


_KINDS: dict[str, Callable[[str, str, Mapping[str, int], np.random.Generator], Made]] = {
    "sentence": _sentence,
    "keywords": _keywords,
    "verbose": _verbose,
    "half": _half,
}


def _cut_sentence(text: str, chance: np.random.Generator) -> tuple[str, str] | None:
    """Take a sentence of a fitting length out of a text of at least three."""
    spans = split_sentences(text)
    fitting = [
        span for span in spans if _LEAST <= len(text[span.start : span.end].split()) <= _MOST
    ]
    if len(spans) < 3 or not fitting:
        return None
    span = fitting[int(chance.integers(len(fitting)))]
    left = f"{text[: span.start].strip()} {text[span.end :].strip()}".strip()
    return text[span.start : span.end].strip(), left


def _content(text: str) -> list[str]:
    """List the words of a text that are no stop words, in lower case."""
    return [
        word
        for word in map(str.lower, _WORDS.findall(text))
        if word not in STOP_WORDS and len(word) > 2
    ]
