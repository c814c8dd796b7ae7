"""Questions and passages to subwords, the one way, for training and reading alike.

Read is `[CLS] question [SEP] title [SEP] text [SEP]`, without `title [SEP]` where there is none;
everything after the question is of BERT's second kind. Answers are looked for in the text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.models.reader.config import ReaderConfig

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TitledText:
    """What is read of a passage; the title may be empty."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class SubwordSequence:
    """Subwords to be read, and where the parts begin."""

    subword_ids: NDArray[np.int64]  # (T,)
    second: int
    """The first subword of the second kind."""
    text: int
    """The first subword of the text, whose last one stands before the last of all."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a passage's text as it is read."""

    passage: int
    start: int
    """Which of the passage's subwords is its first."""
    sequence: SubwordSequence
    spans: NDArray[np.int64]  # (T, 2), the characters of each subword of the stretch


class ReaderInputs:
    """Turns questions and passages into sequences of subwords."""

    def __init__(self, tokenizer: Tokenizer, config: ReaderConfig) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.config = config
        self._tokenizer = tokenizer
        first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        if first is None or last is None:
            raise ConfigError("the tokenizer has no [CLS] or [SEP]; name an encoder of BERT's kind")
        self._first, self._last = np.array([first]), np.array([last])

    def tokenise(self, texts: Iterable[str]) -> list[tuple[Ids, NDArray[np.int64]]]:
        """Cut texts into subwords, each with the characters that it covers (T, 2)."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            (
                np.array(each.ids, dtype=np.int64),
                np.array(each.offsets, dtype=np.int64).reshape(-1, 2),
            )
            for each in encodings
        ]

    def room(self, question: Ids, title: Ids) -> int:
        """Count the subwords of a text that fit beside a question and a title."""
        asked = min(len(question), self.config.max_question_subwords)
        named = min(len(title), self.config.max_title_subwords)
        return self.config.max_subwords - asked - named - (4 if named else 3)

    def join(self, question: Ids, title: Ids, text: Ids) -> SubwordSequence:
        """Put the parts together; a text that does not fit is cut."""
        asked = question[: self.config.max_question_subwords]
        named = title[: self.config.max_title_subwords]
        parts = [self._first, asked, self._last, text[: self.room(asked, named)], self._last]
        if len(named):
            parts[3:3] = [named, self._last]
        second = len(asked) + 2
        first = second + (len(named) + 1 if len(named) else 0)
        return SubwordSequence(np.concatenate(parts), second, first)

    def pairs(
        self, queries: Sequence[str], passages: Sequence[TitledText], *, most: int | None = None
    ) -> list[SubwordSequence]:
        """Put each passage behind its query, cut to `most` subwords in all."""
        asked = dict(
            zip(dict.fromkeys(queries), self.tokenise(dict.fromkeys(queries)), strict=True)
        )
        named = self.tokenise([each.title for each in passages])
        texts = self.tokenise([each.text for each in passages])
        spare = max(0, self.config.max_subwords - (most or self.config.max_subwords))
        found = []
        for query, (title, _), (text, _) in zip(queries, named, texts, strict=True):
            (question, _) = asked[query]
            room = max(0, self.room(question, title) - spare)
            found.append(self.join(question, title, text[:room]))
        return found

    def windows(self, question: str, passages: Sequence[TitledText]) -> list[Window]:
        """Return what is read of passages, in their order; empty texts are not read."""
        (asked, _), *named = self.tokenise([question, *(each.title for each in passages)])
        texts = self.tokenise([each.text for each in passages])
        found = []
        for number, ((title, _), (ids, spans)) in enumerate(zip(named, texts, strict=True)):
            room = self.room(asked, title)
            for start in _starts(len(ids), room, self.config.overlap_subwords):
                sequence = self.join(asked, title, ids[start : start + room])
                found.append(Window(number, start, sequence, spans[start : start + room]))
        return found


def _starts(length: int, room: int, overlap: int) -> Iterator[int]:
    """Say where windows begin, so that each shares a stretch with the next.

    >>> list(_starts(9, 5, 2)), list(_starts(5, 5, 2)), list(_starts(0, 5, 2))
    ([0, 3, 4], [0], [])
    """
    start = 0
    while start + room < length:
        yield start
        start += room - overlap
    if length:
        yield max(0, length - room)
