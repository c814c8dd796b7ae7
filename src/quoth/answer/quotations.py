"""Which stretches of the passages an answer quotes: pure functions on what a reader found.

The most probable sentence comes first. Others follow where they are nearly as probable and give
another answer, in fewer words; what gives the same one is not repeated. A long sentence is quoted
from one comma, or its like, to another around what answers. What announces something is quoted with
what follows, and what cannot be understood without the sentence before it with that one. Where a
question asks how or why, as such questions are answered at length, whole sentences are quoted, and
the neighbour with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, takewhile

import numpy as np

from quoth.answer.config import AnswerConfig
from quoth.answer.nearness import are_alike, is_question, stems
from quoth.answer.reading import Findings
from quoth.answer.short_answers import LikelyAnswer
from quoth.records import Span
from quoth.vocabulary.dynamic import Source

_BREAK = re.compile(r"[,;:)\]]\s+|\s+(?=[-–—]\s|[(\[])")  # never before an option, as --list
_ANNOUNCEMENT = re.compile(r":\s*$|\b(?:the following|as follows)\b", re.MULTILINE)
# What begins so is not understood without what stands before it.
_LEANING = re.compile(
    r"(?:-\s+)?(?:it|its|this|that|these|those|they|their|such|he|his|she|her|the (?:former|latter)"
    r"|(?:in|by|for|after|with) (?:this|that|these|those|which))\b",
    re.IGNORECASE,
)
_LINES = re.compile(r"\n|\A(?:[-*+•|]|#{1,6}|\d{1,9}[.)])\s")
_ITEM = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s")
_EDGES = " ,;:\r\n\t"
_NUMBER = re.compile(r"\d[\d.,]*")
# Of the questions that begin so in our training sets, 15 % or more have answers of 8 words or more.
_AT_LENGTH = re.compile(
    r"(?:how (?:can|do|does|is|are|to|should)|why|describe|explain"
    r"|what (?:may|should|can|causes?|caused|happens|are|does|do|to))\b|.*\bdifferences?\b",
    re.IGNORECASE,
)
_ONE_NUMBER = re.compile(
    r"(?:when|how (?:many|much|long|old|far|tall|large|big|high|deep)"
    r"|(?:in |since )?(?:what|which) year)\b",
    re.IGNORECASE,
)
_ONE_NAME = re.compile(
    r"(?:who (?:is|was|wrote|invented|founded|discovered)|where (?:is|was))\b", re.I
)


@dataclass(frozen=True, slots=True)
class QuotationLimits:
    """How many sentences are quoted, and how much of each."""

    most: int
    share: float
    words: int
    further_words: int
    """Of a quotation after the first, unless it answers at length."""
    long_words: int
    """Of a quotation that answers at length, its neighbour included."""

    @classmethod
    def of(cls, config: AnswerConfig) -> QuotationLimits:
        """Take what is configured."""
        return cls(
            config.most_quotations,
            config.quotation_share,
            config.quotation_words,
            config.further_words,
            config.long_words,
        )


@dataclass(frozen=True, slots=True)
class Quotation:
    """A stretch that is quoted, and the short answer in it, if there is one."""

    source: Source
    short: str


def choose_quotations(
    question: str, findings: Findings, limits: QuotationLimits
) -> list[Quotation]:
    """Choose what is quoted, most probable first; none where there is no sentence."""
    chosen: dict[int, Quotation] = {}
    said: set[str] = set()
    at_length = asks_at_length(question)
    ordered = np.argsort(-findings.probabilities, kind="stable").tolist()
    for at in ordered[: 2 * limits.most]:
        is_near = findings.probabilities[at] >= limits.share * findings.probabilities[ordered[0]]
        text, short = " ".join(findings.sentences[at].text.casefold().split()), _short(findings, at)
        is_said = text in said or any(
            are_alike(stems(short), stems(each.short)) for each in chosen.values()
        )
        if len(chosen) < limits.most and is_near and not is_said:
            said.add(text)
            quote = _quote_at_length if at_length else _quote
            words = limits.words if at_length or not chosen else limits.further_words
            own = replace(limits, words=min(words, limits.words))
            whole, alone = quote(findings, at, own), _around(findings, at, words=own.words)
            known = [each.source for each in chosen.values()]
            apart = [new for new in (whole, alone) if not any(_overlap(new, old) for old in known)]
            if apart and not (chosen and _asks(findings, at)):
                chosen[at] = Quotation(apart[0], short)
    return _in_order(list(chosen.values()))


def lead_with(short: LikelyAnswer | None, chosen: Sequence[Quotation]) -> list[Quotation]:
    """Put the quotation that holds the short answer first, then the others of its passage."""
    if short is None:
        return [*chosen]
    own = short.source
    return sorted(
        chosen,
        key=lambda each: (not each.source.holds(own), each.source.passage != own.passage),
    )


def asks_at_length(question: str) -> bool:
    """Whether a question is of a kind that is often answered by more than a few words.

    >>> asks_at_length("How do I rename a branch?"), asks_at_length("How many owls are there?")
    (True, False)
    """
    return _AT_LENGTH.match(question.strip()) is not None


def gap_between(before: str, after: str) -> str:
    r"""Return what parts two quotations: a line end where one has lines or is an item of a list.

    >>> gap_between("Owls hunt.", "Hens sleep."), gap_between("Owls hunt.", "- Hens sleep.")
    (' ', '\n')
    >>> gap_between("$ cargo new owl\n$ cd owl", "Hens sleep.")
    '\n'
    """
    return "\n" if _LINES.search(before) or _LINES.search(after) else " "


def disagree(question: str, short_answers: Sequence[str]) -> bool:
    """Whether answers to a question that has one contradict each other: numbers, or names.

    >>> disagree("When was it built?", ["in 1856", "1902"]), disagree("When?", ["1856", "in 1856"])
    (True, False)
    >>> disagree("Who founded it?", ["Ann Lee", "Bo Ray"]), disagree("What is it?", ["a", "b"])
    (True, False)
    """
    if _ONE_NUMBER.match(question.strip()):
        told = [set(_NUMBER.findall(each)) for each in short_answers]
    elif _ONE_NAME.match(question.strip()):
        told = [stems(each) if each[:1].isupper() else set() for each in short_answers]
    else:
        return False
    return any(one and other and not one & other for one, other in combinations(told, 2))


def _short(findings: Findings, at: int) -> str:
    span, sentence = findings.spans[at], findings.sentences[at]
    start = sentence.span.start
    return "" if span is None else sentence.text[span.start - start : span.end - start]


def _overlap(one: Source, other: Source) -> bool:
    shared = one.span.start < other.span.end and other.span.start < one.span.end
    return one.passage == other.passage and shared


def _quote_at_length(findings: Findings, at: int, limits: QuotationLimits) -> Source:
    """Quote a whole sentence with a neighbour, or with the list that it is an item of.

    Where it alone is too long, it is quoted around its answer.
    """
    own = findings.sentences[at]
    if len(own.text.split()) > limits.long_words:
        return _around(findings, at, words=limits.long_words)
    if _announces(own.text):
        return _join(findings, at, _following(findings, at), limits.long_words)
    if rest := _rest_of_list(findings, at):
        return _join(findings, at, rest, limits.long_words)
    beside = [each for each in (at + 1, at - 1) if _is_beside(findings, at, each)]
    leans = _leans(own.text)
    beside.sort(key=lambda each: (leans and each > at, -findings.probabilities[each]))
    return _join(findings, at, beside[:1], limits.long_words)


def _rest_of_list(findings: Findings, at: int) -> list[int]:
    """List what else stands in the list of an item: above it and what announces it, then below.

    A list is announced or numbered; items that only stand one below the other are no answer alike.
    """
    items = {
        each
        for each, sentence in enumerate(findings.sentences)
        if _ITEM.match(sentence.text) and _is_beside(findings, at, each)
    }
    if at not in items:
        return []
    above = [*takewhile(items.__contains__, range(at - 1, -1, -1))]
    top = (above[-1] if above else at) - 1
    if _is_beside(findings, at, top) and _announces(findings.sentences[top].text):
        above.append(top)
    elif not findings.sentences[at].text[0].isdigit():
        return []
    below = range(at + 1, len(findings.sentences))
    return [*above, *takewhile(items.__contains__, below)]


def _quote(findings: Findings, at: int, limits: QuotationLimits) -> Source:
    """Quote a sentence around its answer.

    What announces something goes with what follows, and what leans on the sentence before with it.
    """
    sentence = findings.sentences[at]
    if _announces(sentence.text):
        return _join(findings, at, _following(findings, at), limits.long_words)
    if _leans(sentence.text) and _is_beside(findings, at, at - 1):
        joined = _join(findings, at, [at - 1], limits.long_words)
        if joined.span.start < sentence.span.start:
            return joined
    return _around(findings, at, words=limits.words)


def _around(findings: Findings, at: int, *, words: int) -> Source:
    """Quote so many words of a sentence around its answer; all of it where none is known."""
    sentence, answer = findings.sentences[at], findings.spans[at]
    if answer is None:
        return Source(sentence.passage, sentence.span)
    first, last = answer.start, min(answer.end, sentence.span.end)
    shift = sentence.span.start
    kept = trim(sentence.text, Span(first - shift, last - shift), words=words)
    return Source(sentence.passage, Span(shift + kept.start, shift + kept.end))


def _following(findings: Findings, at: int) -> list[int]:
    """List the sentences that follow one in its passage; after a question, those that answer it."""
    after = range(at + 1, len(findings.sentences))
    beside = [each for each in after if _is_beside(findings, at, each)]
    return _answering(findings, beside) if _asks(findings, at) else beside


def _answering(findings: Findings, following: Sequence[int]) -> list[int]:
    """Keep what answers a question: up to the next one that follows an answer; else nothing."""
    answer = next((at for at in following if not _asks(findings, at)), None)
    if answer is None:
        return []
    return [*takewhile(lambda at: at < answer or not _asks(findings, at), following)]


def _asks(findings: Findings, at: int) -> bool:
    return is_question(findings.sentences[at].text)


def _join(findings: Findings, at: int, others: Sequence[int], words: int) -> Source:
    """Quote a sentence, with those of its neighbours that leave it within so many words."""
    own = findings.sentences[at]
    low = high = own.span
    count = len(own.text.split())
    for other in (findings.sentences[each] for each in others):
        count += len(other.text.split())
        if count > words:
            break
        low, high = min(low, other.span), max(high, other.span)
    return Source(own.passage, Span(low.start, high.end))


def _is_beside(findings: Findings, at: int, other: int) -> bool:
    """Whether two places hold sentences of one passage."""
    sentences = findings.sentences
    return 0 <= other < len(sentences) and sentences[other].passage == sentences[at].passage


def _announces(text: str) -> bool:
    r"""Whether a stretch is a heading or question, says that something follows, or ends in a colon.

    >>> _announces("# Owls"), _announces("There are two:\n- barn owls."), _announces("They hunt.")
    (True, True, False)
    """
    return text.startswith("#") or is_question(text) or _ANNOUNCEMENT.search(text) is not None


def _leans(text: str) -> bool:
    """Whether a sentence begins with a word that stands for something in the one before.

    >>> _leans("It nests in barns."), _leans("Its nests are old."), _leans("Italian owls nest.")
    (True, True, False)
    """
    return _LEANING.match(text) is not None


def trim(sentence: str, answer: Span, *, words: int) -> Span:
    """Cut a sentence at commas and their like, around an answer, to at most so many words.

    What comes before the answer is kept first, since it says what the answer is about. The stretch
    between two breaks that the answer stands in is kept, however long it is.

    >>> text = "In 1856, when it was rebuilt, the harbour got a lighthouse, which still stands."
    >>> found = trim(text, Span(48, 58), words=9)
    >>> text[found.start : found.end]
    'when it was rebuilt, the harbour got a lighthouse'
    """
    if len(sentence.split()) <= words:
        return Span(0, len(sentence))
    breaks = [0, *(found.end() for found in _BREAK.finditer(sentence)), len(sentence)]
    low = max(each for each in breaks if each <= answer.start)
    high = min(each for each in breaks if each >= answer.end)
    for earlier in [each for each in reversed(breaks) if each < low]:
        if len(sentence[earlier:high].split()) > words:
            break
        low = earlier
    for later in [each for each in breaks if each > high]:
        if len(sentence[low:later].split()) > words:
            break
        high = later
    if high < len(sentence):
        high = max(answer.end, low + len(sentence[low:high].rstrip(_EDGES)))
    return Span(low, high)


def _in_order(chosen: Sequence[Quotation]) -> list[Quotation]:
    """Let sentences of one passage follow each other as they stand.

    >>> first, second, other = (
    ...     Quotation(Source(passage, Span(start, end)), "")
    ...     for passage, start, end in ((0, 0, 9), (0, 10, 20), (1, 0, 5))
    ... )
    >>> _in_order([second, other, first]) == [first, second, other]
    True
    """
    firsts = {each.source.passage: at for at, each in reversed(list(enumerate(chosen)))}
    return sorted(chosen, key=lambda each: (firsts[each.source.passage], each.source.span))
