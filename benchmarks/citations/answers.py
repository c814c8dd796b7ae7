"""Compare an answer with reference answers: exact match, F1, ROUGE-L, recall of short answers.

Normalising, exact match and F1 follow SQuAD's script; recall of short answers is ALCE's (the share
of sub-questions one of whose short answers occurs in the answer); ROUGE-L is the F-measure of the
longest common subsequence over lower-case words without stemming (Lin 2004). `quotation_f1` follows
the idea of SEMQA (Schuster et al. 2024): what was quoted from each source against what the
reference quotes from it.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_ALPHANUMERIC = re.compile(r"[a-z0-9]+")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case, drop ASCII punctuation and articles, and join what is left by single spaces.

    >>> normalise("The  U.S. of A.")
    'us of'
    """
    bare = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    """Return 1 if the answer equals a reference after normalising, else 0.

    >>> exact_match("The Nile.", ["nile", "Blue Nile"])
    1.0
    """
    return float(normalise(answer) in {normalise(each) for each in references})


def word_f1(answer: str, references: Sequence[str]) -> float:
    """Return the best F1 of shared words over the references, counted with repeats.

    >>> word_f1("the blue nile", ["Nile", "Amazon"])  # 1 of 2 words, of 1 word
    0.6666666666666666
    """
    return max((_f1(normalise(answer), normalise(each)) for each in references), default=0.0)


def short_answer_recall(answer: str, short_answers: Sequence[Sequence[str]]) -> float:
    """Return the share of sub-questions of which some short answer occurs in the answer.

    Occurs: after normalising, as a substring, as ALCE has it. Sub-questions without a short answer
    that is left after normalising do not count.

    >>> short_answer_recall("Ali Daei, then Ronaldo.", [["Daei", "Ali Daei"], ["Josef Bican"]])
    0.5
    """
    text = normalise(answer)
    wanted = [[each for each in map(normalise, own) if each] for own in short_answers]
    found = [any(each in text for each in own) for own in wanted if own]
    return fmean(found) if found else 0.0


def rouge_l(answer: str, references: Sequence[str]) -> float:
    """Return the best F-measure of the longest common subsequence of words over the references.

    >>> rouge_l("the cat sat down", ["the cat lay down"])  # the cat … down: 3 of 4, of 4
    0.75
    """
    words = _ALPHANUMERIC.findall(answer.lower())
    return max(
        (_subsequence_f(words, _ALPHANUMERIC.findall(each.lower())) for each in references),
        default=0.0,
    )


def quotation_f1(quoted: Mapping[int, str], reference: Mapping[int, str]) -> float:
    """Average, over the sources that either side quotes, the F1 of the words quoted from each.

    Both map a source to all that is quoted from it, joined. Two answers without any quotation
    agree.

    >>> quotation_f1({1: "blue nile", 2: "amazon"}, {1: "the Nile"})  # (2/3 + 0) / 2
    0.3333333333333333
    """
    sources = quoted.keys() | reference.keys()
    return (
        fmean(
            _f1(normalise(quoted.get(each, "")), normalise(reference.get(each, "")))
            for each in sources
        )
        if sources
        else 1.0
    )


def _f1(answer: str, reference: str) -> float:
    own, wanted = answer.split(), reference.split()
    if not own or not wanted:  # SQuAD: an empty side agrees with an empty one only
        return float(own == wanted)
    shared = sum((Counter(own) & Counter(wanted)).values())
    return 2 * shared / (len(own) + len(wanted))


def _subsequence_f(own: Sequence[str], wanted: Sequence[str]) -> float:
    if not own or not wanted:
        return 0.0
    return 2 * _longest_common(own, wanted) / (len(own) + len(wanted))


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, row by row of the usual table.

    >>> _longest_common("a b c d".split(), "b d a".split())
    2
    """
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for at, other in enumerate(second, start=1):
            above = row[at]
            row[at] = diagonal + 1 if word == other else max(above, row[at - 1])
            diagonal = above
    return row[-1]
