"""What a reader is: how questions and passages are cut for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig


@dataclass(frozen=True, slots=True)
class ReaderConfig(CheckedConfig, title="reader"):
    """Settings of a reader; they are saved with it."""

    max_subwords: AtLeastOne = 320
    """Most subwords read at once: question, title and text; longer texts are read in windows."""

    max_question_subwords: AtLeastOne = 96
    """Most subwords of a question; the rest is cut."""

    max_title_subwords: AtLeastOne = 24
    """Most subwords of a title; the rest is cut."""

    overlap_subwords: AtLeastZero = 64
    """Subwords that two windows of a text share."""

    def conflicts(self) -> Iterator[str]:
        """Say where nothing would be left for a text."""
        least = self.max_question_subwords + self.max_title_subwords + 4 + self.overlap_subwords
        if self.max_subwords <= least:
            yield (
                f"max_subwords is {self.max_subwords}, expected more than question, title and"
                f" overlap need together ({least})"
            )
