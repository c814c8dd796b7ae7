"""Answers that quote, made from questions with passages, or from a corpus alone.

Supervised: the sentence of the right passage that holds the answer, or the answer itself, written
as phrases of that passage that follow each other without a gap; sometimes two questions at once, so
that two passages are quoted. Self-supervised: a sentence written as far as possible in phrases of
other passages. Unanswerable: passages that do not hold the answer, and a fixed refusal in plain
subwords, whose probability later tells whether there is an answer at all.

Phrases are cut as they are offered when answering: they begin with a word and its space, and end
with a word or with the marks that follow it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quoth.models.dynamic_lm.inputs import DynamicLMInputs, TokenisedText
from quoth.records import Span
from quoth.selfsupervision.phrase_matching import MatchLimits, SubwordText, match_forward
from quoth.selfsupervision.phrase_sampling import as_subwords
from quoth.text.blocks import split_sentences
from quoth.training.quoting.quoting_config import QuotingConfig
from quoth.training.quoting.set import Quotation
from quoth.vocabulary.dynamic import NO_ANSWER

JOINT = " Also:"
"""What is written between two quoted sentences."""

_HEADING = "Write a sentence about {}."
_WORD = re.compile(r"\w{3,}")
_CLAUSE_END = re.compile(r"[,;:](?=\s)")


@dataclass(frozen=True, slots=True)
class QuoteRecord:
    """A question, its answers as they stand in the passage, and passages that are near it."""

    question: str
    answers: tuple[str, ...]
    passage: str
    distractors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoverRecord:
    """A sentence, what it is about, and other passages."""

    heading: str
    sentence: str
    passages: tuple[str, ...]


class QuoteWriter:
    """Writes quotations with the inputs of one model."""

    def __init__(self, inputs: DynamicLMInputs, config: QuotingConfig) -> None:
        self._inputs = inputs
        self._config = config

    def answer(self, records: Sequence[QuoteRecord]) -> Iterator[Quotation]:
        """Make one sample per record at most; records whose passage lacks the answer make none."""
        config = self._config
        for at, record in enumerate(records):
            chance = np.random.default_rng([config.seed, at])
            if chance.random() < config.unanswerable_share:
                found = self._refuse(record, chance)
            elif (drawn := chance.random()) < config.joined_share:
                away = int(chance.integers(1, max(len(records), 2)))
                other = records[(at + away) % len(records)]
                found = self._quote([record, other], chance, is_short=False)
            else:
                is_short = drawn < config.joined_share + config.short_share
                found = self._quote([record], chance, is_short=is_short)
            if found is not None:
                yield found

    def cover(self, records: Sequence[CoverRecord]) -> Iterator[Quotation]:
        """Rebuild sentences from phrases of other passages, where those hold enough of them."""
        for record in records:
            passages = record.passages[: self._config.num_passages]
            tokenised = self._read_all([record.sentence, *passages])
            text, *others = _as_passages([record.sentence, *passages], tokenised)
            phrases = self._matches(" " + record.sentence, tokenised[0], text, others)
            covered = sum(end - start for start, end, *_ in phrases)
            if covered < self._config.min_cover * len(text.subword_ids) or not phrases:
                continue
            target = [*text.subword_ids.tolist(), self._inputs.end_id]
            question = _HEADING.format(record.heading)
            yield self._sample(question, passages, others, target=target, phrases=phrases)

    def _refuse(self, record: QuoteRecord, chance: np.random.Generator) -> Quotation | None:
        count = int(chance.integers(self._config.min_passages, self._config.num_passages + 1))
        hidden = [answer.casefold() for answer in record.answers]
        others = [
            text
            for text in record.distractors
            if text != record.passage and not any(each in text.casefold() for each in hidden)
        ][:count]
        if not others:
            return None
        target = [*self._inputs.tokenise(NO_ANSWER).subword_ids, self._inputs.end_id]
        read = _as_passages(others, self._read_all(others))
        return self._sample(record.question, others, read, target=target, is_answerable=False)

    def _quote(
        self, records: Sequence[QuoteRecord], chance: np.random.Generator, *, is_short: bool
    ) -> Quotation | None:
        passages = self._choose_passages(records, chance)
        tokenised = self._read_all(passages)
        sentences = self._rivals(records[0], passages, tokenised) if len(records) == 1 else []
        target: list[int] = []
        phrases: list[tuple[int, int, int, int]] = []
        for record in dict.fromkeys(records):
            number = passages.index(record.passage)
            quoted = _quoted_span(record, self._config, is_short=is_short)
            if quoted is None:
                return None
            if target:
                target += self._inputs.tokenise(JOINT).subword_ids
            spaced = " " + record.passage
            is_spaced = spaced[quoted.start].isspace()
            first, last = _subwords_of(tokenised[number], quoted, is_spaced=is_spaced)
            opens = _opens(spaced, tokenised[number])
            shift = len(target) - first
            for start, end in tile(
                opens[first:last], max_subwords=self._config.max_phrase_subwords
            ):
                place = first + start
                phrases.append((place + shift, first + end + shift, number, place))
            target += tokenised[number].subword_ids[first:last]
        target.append(self._inputs.end_id)
        question = " ".join(record.question for record in dict.fromkeys(records))
        read = _as_passages(passages, tokenised)
        found = self._sample(question, passages, read, target=target, phrases=phrases)
        return replace(found, sentences=np.array(sentences, dtype=np.int64).reshape(-1, 3))

    def _rivals(
        self, record: QuoteRecord, passages: Sequence[str], tokenised: Sequence[TokenisedText]
    ) -> list[tuple[int, int, int]]:
        """Find the sentence that answers, and those nearest to the question that do not."""
        right = _sentence_holding(record)
        if right is None:
            return []
        asked = set(_WORD.findall(record.question.casefold()))
        hidden = [answer.casefold() for answer in record.answers]
        rivals: list[tuple[int, tuple[int, int, int]]] = []
        for number, (text, own) in enumerate(zip(passages, tokenised, strict=True)):
            for span in split_sentences(text):
                said = text[span.start : span.end].casefold()
                if not any(each in said for each in hidden):
                    shared = len(asked & set(_WORD.findall(said)))
                    rivals.append((-shared, (number, *_places_of(own, span))))
        rivals.sort()
        number = passages.index(record.passage)
        return [
            (number, *_places_of(tokenised[number], right)),
            *(place for _shared, place in rivals[: self._config.rival_sentences]),
        ]

    def _choose_passages(
        self, records: Sequence[QuoteRecord], chance: np.random.Generator
    ) -> list[str]:
        """Take the right passages and the nearest others in turn, and shuffle them."""
        right = dict.fromkeys(record.passage for record in records)
        nearest = max(len(record.distractors) for record in records)
        others = dict.fromkeys(
            record.distractors[at]
            for at in range(nearest)
            for record in records
            if at < len(record.distractors) and record.distractors[at] not in right
        )
        count = int(chance.integers(self._config.min_passages, self._config.num_passages + 1))
        chosen = [*right, *others][: max(count, len(right))]
        return [chosen[at] for at in chance.permutation(len(chosen))]

    def _matches(
        self, sentence: str, tokenised: TokenisedText, text: SubwordText, others: list[SubwordText]
    ) -> list[tuple[int, int, int, int]]:
        limits = MatchLimits(max_subwords=self._config.max_phrase_subwords)
        is_stop = np.array(
            [
                not any(map(str.isalnum, sentence[start:end])) and bool(sentence[start:end].strip())
                for start, end in zip(tokenised.starts, tokenised.ends, strict=True)
            ],
            dtype=np.bool_,
        )
        found = match_forward(text, others, is_stop=is_stop, limits=limits, own=False)
        opens = _opens(sentence, tokenised)
        return [
            (start, end, number, place)
            for start, end, number, place in found.tolist()
            if opens[start]
        ]

    def _sample(
        self,
        question: str,
        passages: Sequence[str],
        read: Sequence[SubwordText],
        *,
        target: list[int],
        phrases: Sequence[tuple[int, int, int, int]] = (),
        is_answerable: bool = True,
    ) -> Quotation:
        return Quotation(
            np.array(self._inputs.prompt(question, passages), dtype=np.int64),
            np.array(target, dtype=np.int64),
            np.array(phrases, dtype=np.int64).reshape(-1, 4),
            tuple(read),
            is_answerable,
        )

    def _read_all(self, texts: Sequence[str]) -> list[TokenisedText]:
        """Tokenise texts with a space before them, as they stand in a prompt."""
        return self._inputs.tokenise_all([" " + text for text in texts])


def tile(opens: Sequence[bool], *, max_subwords: int) -> list[tuple[int, int]]:
    """Cut a stretch into phrases of whole words, each as long as allowed.

    `opens` says which subwords begin a word. What stands before the first of them, words that are
    too long, and words alone with one subword stay plain.

    >>> tile([True, True, False, True, True, False, False], max_subwords=3)
    [(0, 3), (4, 7)]
    """
    cuts = [*np.flatnonzero(opens).tolist(), len(opens)]
    phrases = []
    at = 0
    while at < len(cuts) - 1:
        start = cuts[at]
        longest = max(to for to in range(at, len(cuts)) if cuts[to] <= start + max_subwords)
        if cuts[longest] > start + 1:
            phrases.append((start, cuts[longest]))
        at = max(at + 1, longest)
    return phrases


def _quoted_span(record: QuoteRecord, config: QuotingConfig, *, is_short: bool) -> Span | None:
    """Find what is quoted: the answer, or the first sentence that holds one."""
    sentence = _sentence_holding(record)
    if sentence is None:
        return None
    text = record.passage[sentence.start : sentence.end]
    found = ((_find_words(text, each), each) for each in record.answers)
    at, answer = next((at, each) for at, each in found if at >= 0)
    held = Span(sentence.start + at, sentence.start + at + len(answer))
    if is_short:
        return held
    limit = config.max_sentence_words
    is_long = bool(limit) and len(text.split()) > limit
    return _clauses(record.passage, sentence, held) if is_long else sentence


def _sentence_holding(record: QuoteRecord) -> Span | None:
    """Find the first sentence that holds an answer."""
    for sentence in split_sentences(record.passage):
        text = record.passage[sentence.start : sentence.end]
        if any(_find_words(text, answer) >= 0 for answer in record.answers):
            return sentence
    return None


def _find_words(text: str, answer: str) -> int:
    """Find an answer where it is not part of a longer word; −1 where it is not."""
    found = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) if answer.strip() else None
    return -1 if found is None else found.start()


def _clauses(passage: str, sentence: Span, held: Span) -> Span:
    """Narrow a sentence to the clauses that hold a stretch of it.

    >>> text = "He came, saw the barn owl, and went."
    >>> span = _clauses(text, Span(0, len(text)), Span(17, 25))
    >>> text[span.start : span.end]
    'saw the barn owl,'
    """
    ends = [each.end() for each in _CLAUSE_END.finditer(passage, sentence.start, sentence.end)]
    before = [end for end in ends if end <= held.start]
    after = [end for end in ends if end >= held.end]
    start = before[-1] if before else sentence.start
    while passage[start].isspace():
        start += 1
    return Span(start, after[0] if after else sentence.end)


def _subwords_of(tokenised: TokenisedText, span: Span, *, is_spaced: bool) -> tuple[int, int]:
    """Return the subwords that cover a stretch of a passage, which was read with a space before.

    Where a space stands before the stretch, its subword is among them.
    """
    begin = span.start if is_spaced else span.start + 1
    first = next(at for at, end in enumerate(tokenised.ends) if end > begin)
    last = next(
        (at for at, start in enumerate(tokenised.starts) if start >= span.end + 1),
        len(tokenised.starts),
    )
    return first, last


def _places_of(tokenised: TokenisedText, span: Span) -> tuple[int, int]:
    """Return the subwords that begin within a stretch of a passage, its space included."""
    first, last = np.searchsorted(tokenised.starts, [span.start, span.end]).tolist()
    return first, last


def _as_passages(texts: Sequence[str], tokenised: Sequence[TokenisedText]) -> list[SubwordText]:
    return [as_subwords(" " + text, own) for text, own in zip(texts, tokenised, strict=True)]


def _opens(text: str, tokenised: TokenisedText) -> list[bool]:
    """Say which subwords begin with a space."""
    return [text[start].isspace() for start in tokenised.starts]
