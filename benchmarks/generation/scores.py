"""Measure generated text: repetition, diversity, length in units, perplexity.

The definitions of the Dynamic Vocabulary paper and of the work it compares with: rep-n is the share
of a text's n-grams that already stood in it, and is averaged over texts before diversity multiplies
what is left for n = 2, 3, 4. Words are cut by one regular expression, where the papers use spaCy;
figures compare within Quoth. A unit is one step of generating: a subword or a phrase.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from statistics import fmean

from quoth.errors import EvaluationError

DIVERSITY_LENGTHS = (2, 3, 4)

_WORD = re.compile(r"\w+|[^\w\s]")


def cut_words(text: str) -> list[str]:
    """Cut a text into words and single punctuation marks, case kept.

    >>> cut_words("Don't stop; 3.5 km.")
    ['Don', "'", 't', 'stop', ';', '3', '.', '5', 'km', '.']
    """
    return _WORD.findall(text)


def repetition(words: Sequence[str], *, n: int) -> float:
    """Return rep-n: 1 - distinct n-grams / n-grams; 0 where there are none.

    >>> repetition("a b a b a b".split(), n=2)  # ab, ba, ab, ba, ab: 2 of 5 are distinct
    0.6
    """
    grams = [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def mean_repetition(texts: Iterable[Sequence[str]], *, n: int) -> float:
    """Average rep-n over texts that are cut into words already.

    >>> mean_repetition([["a", "a", "a"], ["a", "b", "c"]], n=2)
    0.25
    """
    return fmean(repetition(words, n=n) for words in texts)


def diversity(texts: Sequence[Sequence[str]]) -> float:
    """Return the product of 1 - rep-n over n = 2, 3, 4, each averaged over the texts first.

    >>> diversity([["a", "b", "c", "d"], ["e", "f", "g", "h"]])
    1.0
    """
    return math.prod(1.0 - mean_repetition(texts, n=n) for n in DIVERSITY_LENGTHS)


def cut_to_shorter(
    first: Sequence[str], second: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Cut two texts to as many words as the shorter has: rep-n grows with length.

    >>> cut_to_shorter(["a", "b", "c"], ["d"])
    (['a'], ['d'])
    """
    length = min(len(first), len(second))
    return first[:length], second[:length]


def bytes_per_unit(texts: Sequence[str], num_units: Sequence[int]) -> float:
    """Divide the UTF-8 bytes of all texts by the units they were generated in.

    >>> bytes_per_unit(["né", "abc"], [1, 2])
    2.0
    """
    if len(texts) != len(num_units) or not sum(num_units):
        raise EvaluationError(
            f"cannot divide {len(texts)} texts by {len(num_units)} counts of units that add up to"
            f" {sum(num_units)}; expected one count per text, and one unit at least"
        )
    return sum(len(text.encode()) for text in texts) / sum(num_units)


def perplexity(log_probabilities: Sequence[float]) -> float:
    """Return exp of minus the mean natural logarithm of the probabilities of a text's subwords.

    >>> round(perplexity([math.log(1 / 4), math.log(1 / 16)]), 6)
    8.0
    """
    if not log_probabilities:
        raise EvaluationError("there is no perplexity of a text without subwords")
    return math.exp(-fmean(log_probabilities))
