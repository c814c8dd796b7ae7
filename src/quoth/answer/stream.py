"""An answer in the making, whoever makes it; apart from who generates, which needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from quoth.answer.cite import Piece, cite
from quoth.records import Answer, Passage, ShortAnswer
from quoth.vocabulary.dynamic import NO_ANSWER


class AnswerStream:
    """An answer in the making: iterate over its pieces, then take the whole."""

    def __init__(self, question: str, notice: str = "", threshold: float = 1.0) -> None:
        self.question = question
        self.notice = notice
        self.threshold = threshold
        self.pieces: list[Piece] = []
        self.passages: tuple[Passage, ...] = ()
        self.support = 1.0
        self.abstains = False
        self.is_continuation = False
        self.short: ShortAnswer | None = None
        self.disagrees = False
        self.source: Iterator[Piece] = iter(())

    def __iter__(self) -> Iterator[Piece]:
        for piece in self.source:
            self.pieces.append(piece)
            yield piece

    def answer(self) -> Answer:
        """Return the answer; what was not iterated over is generated now."""
        for _piece in self:
            pass
        if self.abstains:
            return Answer(NO_ANSWER, (), self.passages, self.support, abstained=True)
        answer = cite(self.pieces, self.passages)
        if self.is_continuation:
            return answer
        refused = not answer.text or answer.text.startswith(NO_ANSWER)
        if refused:
            return Answer(NO_ANSWER, (), self.passages, self.support, abstained=True)
        return replace(answer, support=self.support, short=self.short, disagrees=self.disagrees)
