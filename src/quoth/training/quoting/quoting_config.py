"""Settings of the samples that teach quoting; apart from making them, which needs numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, Range, Seed, Share


@dataclass(frozen=True, slots=True)
class QuotingConfig(CheckedConfig, title="quoting"):
    """Settings of the samples that teach quoting."""

    num_passages: AtLeastOne = 4
    """Most passages per prompt, the right one among them at any place."""

    min_passages: AtLeastOne = 2
    """Fewest passages per prompt, where there are as many; the number is drawn."""

    unanswerable_share: Share = 0.25
    """Share of the questions whose passages do not hold the answer."""

    short_share: Share = 0.2
    """Share of the answerable questions that are answered by the answer alone."""

    joined_share: Share = 0.1
    """Share of the answerable questions that are asked two at a time."""

    max_sentence_words: AtLeastZero = 40
    """Of a longer sentence, only the clauses around the answer are quoted; 0 quotes all."""

    max_phrase_subwords: Annotated[int, Range(2)] = 8
    """Most subwords of a phrase."""

    rival_sentences: AtLeastZero = 8
    """Most sentences that do not answer, told apart from the one that does; the nearest to the
    question by their words."""

    min_cover: Share = 0.4
    """Least share of a sentence's subwords that other passages must hold, to be rebuilt."""

    seed: Seed = 0
    """Decides which samples are drawn."""

    def conflicts(self) -> Iterator[str]:
        """Say where shares or passages do not add up."""
        if self.short_share + self.joined_share > 1:
            yield "short_share + joined_share is above 1, expected at most 1"
        if self.min_passages > self.num_passages:
            yield f"min_passages is {self.min_passages}, above num_passages ({self.num_passages})"
