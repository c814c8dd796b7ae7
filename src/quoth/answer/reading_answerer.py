"""Answer questions by reading: the sentences that answer, quoted, and the short answer in them.

A reader scores every sentence of the passages; whether the best of them answer is decided by its
signs, and if so the most probable sentences are quoted as they stand, and an answer takes no longer
than reading. Given a language model, the answer is written by it instead, in phrases of those
passages, whose scores the reader raises (`guidance.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from quoth.answer.abstain import (
    MARGIN_ALONE,
    Abstention,
    ReaderSigns,
    make_reader_features,
    open_abstention,
)
from quoth.answer.cite import Piece, cite
from quoth.answer.config import AnswerConfig
from quoth.answer.guidance import Guide, best_passages, find_short
from quoth.answer.nearness import EncodeSentences, Numbers, sentence_cosines
from quoth.answer.quotations import (
    QuotationLimits,
    choose_quotations,
    disagree,
    gap_between,
    lead_with,
)
from quoth.answer.reading import Findings, Nearness, find_answer, open_weights
from quoth.answer.short_answers import LikelyAnswer, choose_short
from quoth.answer.stream import AnswerStream
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import Reader
from quoth.records import Answer, Passage, ShortAnswer, Span
from quoth.vocabulary.dynamic import Source

if TYPE_CHECKING:
    from quoth.answer.answerer import Answerer

_LEAST_MARGIN = -60.0  # of passages without any text


@dataclass(frozen=True, slots=True)
class TitledPassage:
    """A passage, and what is known of its document."""

    passage: Passage
    title: str = ""
    """Empty where it has none."""
    standing: float = 0.0
    """How far search ranked it below the first (`standing_of`); 0 where nothing ranked it."""


@dataclass(frozen=True, slots=True)
class FittedReader:
    """A reader with what was fitted for it: weights of a sentence's signs, and when to abstain."""

    reader: Reader
    weights: tuple[float, ...]
    abstention: Abstention

    @classmethod
    def open(cls, folder: Path) -> FittedReader:
        """Open the reader in a folder."""
        abstention = open_abstention(folder, without=MARGIN_ALONE)
        return cls(Reader.load(str(folder)), open_weights(folder), abstention)

    def needs_vectors(self, config: AnswerConfig) -> bool:
        """Whether anything goes by the cosine of a sentence; else none need be encoded."""
        return self.abstention.needs_vectors or config.nearness_weight > 0


class ReadingAnswerer:
    """Answers with a reader."""

    def __init__(
        self,
        fitted: FittedReader,
        config: AnswerConfig,
        *,
        writer: Answerer | None = None,
        encode: EncodeSentences | None = None,
    ) -> None:
        """Quote sentences as they stand, or let a language model write in their phrases.

        `encode` is the encoder that abstention was fitted with, None where it needs none.
        """
        self._writer = writer
        self._encode = encode
        self._reader = fitted.reader
        self._weights = fitted.weights
        self._abstention = fitted.abstention
        self._config = config

    def answer(
        self, questions: Sequence[str], passages: Sequence[Sequence[TitledPassage]]
    ) -> list[Answer]:
        """Answer each question from its own passages, best hit first; all are read together."""
        return self.answer_found(questions, passages, self.find(questions, passages))

    def answer_found(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[TitledPassage]],
        found: Sequence[Findings],
    ) -> list[Answer]:
        """Answer each question by what was found in its passages."""
        streams = [AnswerStream(each) for each in questions]
        for stream, own, findings in zip(streams, passages, found, strict=True):
            stream.source = self._write(own, findings, stream)
        return [stream.answer() for stream in streams]

    def stream(self, question: str, passages: Sequence[TitledPassage]) -> AnswerStream:
        """Answer one question piece by piece: iterate over it, then take its `answer()`."""
        stream = AnswerStream(question)
        stream.source = self._read_and_write(passages, stream)
        return stream

    def features(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[TitledPassage]],
        found: Sequence[Findings],
    ) -> Numbers:  # (N, F)
        """Return what abstention is decided by, for fitting it."""
        asked = zip(questions, passages, found, strict=True)
        return np.stack([self._signs(*each) for each in asked])

    def _read_and_write(
        self, passages: Sequence[TitledPassage], stream: AnswerStream
    ) -> Iterator[Piece]:
        """Read when the first piece is asked for."""
        (findings,) = self.find([stream.question], [passages])
        yield from self._write(passages, findings, stream)

    def _write(
        self, passages: Sequence[TitledPassage], findings: Findings, stream: AnswerStream
    ) -> Iterator[Piece]:
        """Decide whether there is an answer, and quote it; what is decided is noted."""
        stream.passages = tuple(each.passage for each in passages if each.passage.text.strip())
        stream.support = 0.0
        if findings.sentences:
            signs = self._signs(stream.question, passages, findings)
            stream.support = 1.0 - float(self._abstention.probabilities(signs[None])[0])
        stream.abstains = not findings.sentences or 1.0 - stream.support > self._config.threshold
        if stream.abstains:
            stream.passages = _first_of_each_document(stream.passages)
        elif self._writer is None:
            yield from self._quote(passages, findings, stream)
        else:
            yield from self._compose(self._writer, passages, findings, stream)

    def _compose(
        self,
        writer: Answerer,
        passages: Sequence[TitledPassage],
        findings: Findings,
        stream: AnswerStream,
    ) -> Iterator[Piece]:
        """Let a language model write from the passages of the most probable sentences."""
        chosen = best_passages(findings, most=self._config.written_passages)
        stream.passages = tuple(passages[at].passage for at in chosen)
        guide = Guide.of(findings, chosen, strength=self._config.guidance)
        for _number, piece in writer.write([stream.question], [stream.passages], guides=[guide]):
            yield piece
        answer = cite(stream.pieces, stream.passages)
        stream.short = find_short(answer, findings.likely, chosen, support=stream.support)

    def _quote(
        self, passages: Sequence[TitledPassage], findings: Findings, stream: AnswerStream
    ) -> Iterator[Piece]:
        """Write what is quoted, each stretch with its place."""
        limits = QuotationLimits.of(self._config)
        chosen = choose_quotations(stream.question, findings, limits)
        short = choose_short(findings.likely, [each.source for each in chosen])
        ordered = [each.source for each in lead_with(short, chosen)]
        stream.short = _short(short, ordered[0], stream.support) if short else None
        stream.disagrees = disagree(stream.question, [each.short for each in chosen])
        numbers = {passage: at for at, passage in enumerate(stream.passages)}
        before = ""
        for source in ordered:
            passage = passages[source.passage].passage
            quoted = passage.text[source.span.start : source.span.end]
            gap = gap_between(before, quoted) if before else ""
            before = quoted
            yield Piece(gap + quoted, (Source(numbers[passage], source.span),))

    def find(
        self, questions: Sequence[str], passages: Sequence[Sequence[TitledPassage]]
    ) -> list[Findings]:
        """Read the passages of each question, and say where the answers stand."""
        for question in questions:
            self._config.check(question)
        texts = [[TitledText(each.title, each.passage.text) for each in own] for own in passages]
        readings = self._reader.read_all(questions, texts)
        return [
            find_answer(
                [each.passage.text for each in own],
                read,
                weights=self._weights,
                standings=[each.standing for each in own],
                nearness=self._nearness(question),
            )
            for question, own, read in zip(questions, passages, readings, strict=True)
        ]

    def _signs(
        self, question: str, passages: Sequence[TitledPassage], findings: Findings
    ) -> Numbers:
        signs = ReaderSigns(
            margin=float(np.maximum(findings.margin, _LEAST_MARGIN)),
            relevance=float(np.maximum(findings.relevance, _LEAST_MARGIN)),
            nearest=findings.nearest,
            score=float(np.maximum(findings.score, _LEAST_MARGIN)),
        )
        texts, titles = [each.passage.text for each in passages], [each.title for each in passages]
        return make_reader_features(question, texts, signs, titles=titles)

    def _nearness(self, question: str) -> Nearness | None:
        if self._encode is None:
            return None
        cosines = partial(sentence_cosines, question, encode=self._encode)
        return Nearness(cosines, self._config.nearness_weight)


def _first_of_each_document(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Keep the passage that each document was found by, which is the first of it."""
    firsts: dict[str, Passage] = {}
    for passage in passages:
        firsts.setdefault(passage.docid, passage)
    return tuple(firsts.values())


def _short(chosen: LikelyAnswer, quoted: Source, support: float) -> ShortAnswer:
    """Say where the short answer stands in an answer that begins with the quotation it is in."""
    start = chosen.source.span.start - quoted.span.start
    span = Span(start, start + len(chosen.text))
    return ShortAnswer(chosen.text, span, support * chosen.probability)
