"""Signs of a sentence that were tried beside the reader's: what words say, without a network.

| sign | meaning |
|---|---|
| coverage | share of the question's telling words that it holds, rare ones counting more |
| … with the one before | that of the sentence and the one before it |
| … of the heading | that of the heading or question above it in its passage |
| … of the passage | that of its passage and title |
| kind of answer | a number where one is asked for, something like code, or a name |
| item, question, long, short, unfinished | shape: of a list, with "?", > 40 words, < 4, no stop |

Pure: texts in, numbers out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from quoth.answer.nearness import Numbers, Sentence, sentences_of, stems, telling_words

_HOW = re.compile(
    r"how (?:do|can|to|does one|should|could|would)\b|.*\b(?:command|option|flag|setting)\b", re.I
)
_NUMBER_ASKED = re.compile(
    r"when\b|.*\bhow (?:many|much|long|old|far|tall|large|big|high|deep|fast|often)\b"
    r"|.*\b(?:what|which) (?:year|date|number|size|port|version)\b",
    re.I,
)
_NAME_ASKED = re.compile(r"(?:who|whose|whom|where)\b", re.I)
_CODE = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]*|(?<!\w)[~.]?/[\w./-]+|\$\{?\w+|[\w.]+\(\)?|\w+[_=]\w+"
)
_DIGITS = re.compile(r"\d[\d.,]*")
_NAME = re.compile(r"(?<=[^.?!] )[A-Z][a-z]+")
_ITEM = re.compile(r"\s*[-*•]\s")
_LONG, _SHORT, _HEADING_WORDS = 40, 4, 14


def tried_signs(
    question: str, passages: Sequence[str], titles: Sequence[str]
) -> dict[str, Numbers]:  # (N,) each
    """Return each sign of all sentences of the passages, by its name."""
    sentences = sentences_of(passages)
    words = [stems(each.text) for each in sentences]
    cover = coverage_of(question, words)
    before = [words[at - 1] if _follows(sentences, at) else set() for at in range(len(words))]
    above = [words[at] if at >= 0 else set() for at in headings(sentences, passages)]
    whole = [stems(f"{title}\n{text}") for title, text in zip(titles, passages, strict=True)]
    texts = [each.text for each in sentences]
    lengths = [len(each.split()) for each in texts]
    found = {
        "coverage": [cover(own) for own in words],
        "coverage with the one before": [
            cover(own | other) for own, other in zip(words, before, strict=True)
        ],
        "coverage of the heading": [cover(own) for own in above],
        "coverage of the passage": [cover(whole[each.passage]) for each in sentences],
        "kind of answer": [is_of_kind(question, each) for each in texts],
        "item": [_ITEM.match(each) is not None for each in texts],
        "question": [each.rstrip("¶ ").endswith("?") for each in texts],
        "long": [each > _LONG for each in lengths],
        "short": [each < _SHORT for each in lengths],
        "unfinished": [each.rstrip()[-1:] not in '.!?:;,)”"' for each in texts],
    }
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}


def coverage_of(question: str, words: Sequence[set[str]]) -> Callable[[set[str]], float]:
    """Return what measures how much of a question a set of stems holds.

    A stem counts by how few of the sentences hold it, `words` by sentence.

    >>> cover = coverage_of("Do owls hunt?", [{"owl"}, {"owl", "hunt"}, {"hen"}, {"hen"}])
    >>> cover({"owl"}) < cover({"hunt"}) < cover({"owl", "hunt"}) == 1.0
    True
    """
    telling = telling_words(question)
    counts = Counter(stem for own in words for stem in own & telling.keys())
    rarity = {
        stem: weight * math.log1p(len(words) / max(counts[stem], 0.5))
        for stem, weight in telling.items()
    }
    total = math.fsum(rarity.values()) or 1.0
    return lambda own: math.fsum(rarity[stem] for stem in own & rarity.keys()) / total


def headings(sentences: Sequence[Sentence], passages: Sequence[str]) -> list[int]:
    r"""Return the number of the heading above each sentence in its passage; -1 where none is.

    >>> text = "Why owls?\n\nThey hunt. They fly."
    >>> headings(sentences_of([text]), [text])
    [-1, 0, 0]
    """
    found, last = [], -1
    for at, each in enumerate(sentences):
        if not _follows(sentences, at):
            last = -1
        found.append(last)
        if _is_heading(each, passages[each.passage]):
            last = at
    return found


def is_of_kind(question: str, sentence: str) -> bool:
    """Whether a sentence holds something of the kind that is asked for, new to the question.

    >>> is_of_kind("How do I list files?", "Use ls --all."), is_of_kind("When was it?", "In 1856.")
    (True, True)
    >>> is_of_kind("When was it?", "Long ago."), is_of_kind("What does -l do?", "With -l it lists.")
    (False, False)
    """
    asked = question.strip()
    kinds = ((_NUMBER_ASKED, _DIGITS), (_HOW, _CODE), (_NAME_ASKED, _NAME))
    return any(
        found[0] not in question
        for asks, holds in kinds
        if asks.match(asked)
        for found in holds.finditer(sentence)
    )


def _follows(sentences: Sequence[Sentence], at: int) -> bool:
    return at > 0 and sentences[at - 1].passage == sentences[at].passage


def _is_heading(sentence: Sentence, passage: str) -> bool:
    """Whether a sentence is marked as a heading, or a short line or question that stands alone."""
    start, end = sentence.span.start, sentence.span.end
    is_alone = passage[end : end + 1] in ("", "\n") and passage[max(0, start - 1) : start] in (
        "",
        "\n",
    )
    text = sentence.text.rstrip("¶ \t")
    is_short = len(text.split()) <= _HEADING_WORDS and text[-1:] not in ".!:;,"
    return text.startswith("#") or (is_alone and is_short)
