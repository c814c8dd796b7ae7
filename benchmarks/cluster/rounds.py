"""More passages than there is real text: rounds over the same texts, each of other passages.

There are about a million passages of 48 words in ../shared/data, so ten million are made in ten
rounds. The first cuts the texts as `build.py` does. In each later one, the sentences of every eight
texts in a row are shuffled together and cut into stretches of 24 to 48 words: words and sentences
are real, in an order that no text has. Texts that are read again bring no new words, though a
collection's vocabulary grows with its size; so one passage in eight ends in a number of its own.
Every round has a seed of its own and is the same every time.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.cluster.build import WORDS, passages, real_texts
from quoth.records import Document

FEWEST_WORDS = 24
TEXTS = 8
NUMBERED = 8
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def passages_of_round(data: Path, number: int, count: int) -> Iterator[Document]:
    """Yield the first `count` passages of a round, fewer where it has no more."""
    if number == 0:
        yield from passages(data, count)
    else:
        yield from islice(_shuffled(data, number), count)


def docids_of_round(data: Path, number: int, count: int) -> Iterator[str]:
    """Yield the docids of these passages, of later rounds without making them."""
    if number == 0:
        return (document.docid for document in passages(data, count))
    return (name_passage(number, made) for made in range(count))


def name_passage(number: int, made: int) -> str:
    """Name a passage of a later round.

    >>> name_passage(3, 17)
    'round-3/17'
    """
    return f"round-{number}/{made}"


def _shuffled(data: Path, number: int) -> Iterator[Document]:
    texts = (text for _name, text in real_texts(data))
    seeded = random.Random(number)
    made = 0
    while group := list(islice(texts, TEXTS)):
        for stretch in _cut(_shuffle_sentences(group, seeded), seeded):
            if made % NUMBERED == 0:
                stretch = f"{stretch} {number}{made:07d}"
            yield Document(name_passage(number, made), {"text": (stretch,)})
            made += 1


def _shuffle_sentences(texts: list[str], seeded: random.Random) -> list[str]:
    """Return the words of all sentences, which keep their words together."""
    sentences = [each for text in texts for each in _SENTENCE_END.split(text)]
    seeded.shuffle(sentences)
    return " ".join(sentences).split()


def _cut(words: list[str], seeded: random.Random) -> Iterator[str]:
    """Cut words into stretches of 24 to 48, the last as long as it is."""
    start = 0
    while start < len(words):
        length = seeded.randint(FEWEST_WORDS, WORDS)
        yield " ".join(words[start : start + length])
        start += length
