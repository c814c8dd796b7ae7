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
    """Maximum passages per prompt, with the right one at a random position."""

    min_passages: AtLeastOne = 2
    """Minimum passages per prompt, where there are as many; the number is sampled."""

    unanswerable_share: Share = 0.25
    """Share of questions whose passages do not contain the answer."""

    short_share: Share = 0.2
    """Share of answerable questions whose target is the short answer alone."""

    joined_share: Share = 0.1
    """Share of answerable questions that are asked in pairs."""

    max_sentence_words: AtLeastZero = 40
    """Sentences with more words are trimmed to the clauses around the answer; 0 quotes them
    whole."""

    max_phrase_subwords: Annotated[int, Range(2)] = 8
    """Maximum subwords per phrase."""

    rival_sentences: AtLeastZero = 8
    """Maximum sentences used as negatives of the one that answers; the nearest to the question by
    their words."""

    min_cover: Share = 0.4
    """Minimum share of a sentence's subwords that other passages must contain for it to be
    rebuilt."""

    seed: Seed = 0
    """Seed of the samples."""

    def conflicts(self) -> Iterator[str]:
        """Say where shares or passages do not add up."""
        if self.short_share + self.joined_share > 1:
            yield "short_share + joined_share is above 1, expected at most 1"
        if self.min_passages > self.num_passages:
            yield f"min_passages is {self.min_passages}, above num_passages ({self.num_passages})"
