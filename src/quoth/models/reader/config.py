"""What a reader is: how questions and passages are cut for it."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """Settings of a reader; they are saved with it."""

    max_subwords: int = 320
    """Most subwords read at once: question, title and text; longer texts are read in windows."""

    max_question_subwords: int = 64
    """Most subwords of a question; the rest is cut."""

    max_title_subwords: int = 24
    """Most subwords of a title; the rest is cut."""

    overlap_subwords: int = 64
    """Subwords that two windows of a text share."""

    def __post_init__(self) -> None:
        least = self.max_question_subwords + self.max_title_subwords + 4
        problems = []
        if min(self.max_question_subwords, self.max_title_subwords) < 1:
            problems.append("max_question_subwords and max_title_subwords must be ≥ 1")
        if self.max_subwords <= least + self.overlap_subwords:
            problems.append(
                f"max_subwords is {self.max_subwords}, expected more than question, title and"
                f" overlap need together ({least + self.overlap_subwords})"
            )
        if problems:
            raise ConfigError("reader: " + "; ".join(problems))
