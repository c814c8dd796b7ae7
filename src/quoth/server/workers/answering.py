"""An answer that a server is about to give: its pieces as they come, then the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from quoth.records import Answer

if TYPE_CHECKING:
    from quoth.answer.answerer import AnswerStream
    from quoth.answer.cite import Piece
    from quoth.server.workers.worker import Served


class AnswerInMaking:
    """A stream of pieces that falls silent where an answer is too improbable.

    The threshold is the request's own and is decided on here, so that requests with different ones
    share what answers.
    """

    def __init__(self, stream: AnswerStream, hits: Sequence[Served], *, threshold: float) -> None:
        self.hits = hits
        self.notice = stream.notice
        self._stream = stream
        self._threshold = threshold

    def pieces(self) -> Iterator[Piece]:
        """Yield pieces; their support is known when the first one comes."""
        for piece in self._stream:
            if 1.0 - self._stream.support > self._threshold:
                self._stream.abstains = True
                self._stream.source = iter(())
                return
            yield piece

    def answer(self) -> Answer:
        """Give the whole, generating what was not taken yet."""
        for _piece in self.pieces():
            pass
        return self._stream.answer()
