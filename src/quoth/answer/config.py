"""Settings of answering; apart from what answers, so that `--help` needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from quoth.constraints import (
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    NonNegative,
    OneOf,
    Positive,
    PositiveShare,
    Range,
    Seed,
    Share,
    Text,
    not_empty,
)
from quoth.errors import ConfigError

SHIPPED = "dynamic-vocabulary"
"""The name of the language model with a dynamic vocabulary that `quoth-weights` holds."""

SHIPPED_READER = "reader"
"""The name of the reader that `quoth-weights` holds."""

_NO_REPEAT_SUBWORDS = 8  # of answers; an answer never says the same twice


@dataclass(frozen=True, slots=True)
class AnswerConfig(CheckedConfig, title="answer"):
    """How a question is answered from its passages."""

    model: Annotated[str, not_empty(f"{SHIPPED}, a folder or a hub name")] = SHIPPED
    """The language model: the shipped one, the folder of a trained one, or any causal language
    model by folder or hub name, which then answers without quoting."""

    reader: Text = SHIPPED_READER
    """What finds the sentences that answer, which are then quoted: the shipped reader, or the
    folder of another; empty leaves answers to the language model."""

    wording: Annotated[str, OneOf("quoted", "written")] = "quoted"
    """quoted: the sentences that the reader found, as they stand; written: the language model
    writes the answer in phrases of their passages, guided by what the reader found."""

    guidance: NonNegative = 2.0
    """How much the reader counts in what is written: added to a phrase's score for every 1.0 by
    which the logarithm of its sentence's probability is higher."""

    written_passages: AtLeastOne = 3
    """Most passages that the language model reads to write; those of the most probable
    sentences."""

    passages_per_document: AtLeastOne = 3
    """Passages of each document that are read for a question."""

    nearness_weight: NonNegative = 0.0
    """Added to the score of a sentence that was read, for every 1.0 of its cosine with the
    question. Held-out training questions showed no gain."""

    most_quotations: AtLeastOne = 3
    """Most sentences quoted in an answer."""

    quotation_share: PositiveShare = 0.5
    """A further sentence is quoted where its probability is at least this share of the first's."""

    quotation_words: AtLeastOne = 25
    """Longer sentences are quoted from one comma, or its like, to another around the answer."""

    long_words: AtLeastOne = 45
    """Most words of a quotation with its neighbour, where a question asks how or why; fewer than
    `quotation_words` never join sentences."""

    prompt_subwords: Annotated[int, Range(64)] = 900
    """Most subwords of the passages in the prompt; later passages are cut, then left out."""

    max_question_chars: Annotated[int, Range(1, 10_000)] = 2_000
    """Longest question that is answered, or text that is continued."""

    threshold: Share = 0.5
    """Quoth says that the documents hold no answer where that is more probable; 1 means never."""

    phrase_first: bool = True
    """Begin answers with a phrase of the passages: whether to refuse is decided before."""

    far_penalty: NonNegative = 24.0
    """Taken off the score of a phrase that would begin an answer, for every 1.0 of cosine by which
    its sentence is further from the question than the nearest one; 0 leaves the choice to the
    language model alone."""

    splice_penalty: NonNegative = 8.0
    """Taken off the score of a phrase that stands elsewhere than where the phrase before it ended,
    in the middle of a sentence; 0 lets sentences be put together from several places."""

    cache_megabytes: AtLeastZero = 128
    """Room for the vectors of phrases kept with a collection, so that they are encoded once."""

    def for_answering(self, decoding: DecodingConfig) -> DecodingConfig:
        """Return the decoding of answers, which never repeat themselves."""
        repeated = decoding.no_repeat_subwords or _NO_REPEAT_SUBWORDS
        return replace(decoding, no_repeat_subwords=repeated)

    def check(self, text: str) -> None:
        """Refuse a question, or a text to continue, that is empty or too long to be read."""
        if not text.strip():
            raise ConfigError("the text is empty; write some words")
        if len(text) > self.max_question_chars:
            raise ConfigError(
                f"the text has {len(text):,} characters, at most {self.max_question_chars:,} are"
                " read; write a shorter one, or raise answer.max_question_chars"
            )


@dataclass(frozen=True, slots=True)
class CandidateConfig(CheckedConfig, title="candidates"):
    """Which phrases of the passages are offered to the language model."""

    source: Annotated[str, OneOf("ngrams", "chunks")] = "ngrams"
    """ngrams: every stretch of whole words; chunks: noun phrases and names."""

    min_subwords: AtLeastOne = 2
    """Fewest subwords of a phrase; 1 lets in single words, stop words left out."""

    max_subwords: Annotated[int, Range(1, 64)] = 8
    """Most subwords of a phrase."""

    max_candidates: AtLeastZero = 1_000
    """Most phrases offered; those of the sentences nearest to the question come first."""

    max_continued: AtLeastZero = 25_000
    """Most phrases offered where a text is continued, by `quoth generate`."""

    def conflicts(self) -> Iterator[str]:
        """Say where the shortest phrase is longer than the longest."""
        if self.min_subwords > self.max_subwords:
            yield (
                f"min_subwords is {self.min_subwords}, expected at most max_subwords"
                f" ({self.max_subwords})"
            )


@dataclass(frozen=True, slots=True)
class DecodingConfig(CheckedConfig, title="decoding"):
    """How a text is generated, token by token."""

    method: Annotated[str, OneOf("greedy", "nucleus")] = "greedy"
    """greedy: always the best token; nucleus: drawn from the most probable ones."""

    nucleus: PositiveShare = 0.95
    """Share of probability that nucleus draws from."""

    temperature: Positive = 1.0
    """Divides scores before nucleus draws; below 1 it is more cautious."""

    seed: Seed = 0
    """Seed of drawing; the same for every text of a batch."""

    max_subwords: AtLeastOne = 128
    """Longest generated text, in subwords with phrases written out."""

    phrases: bool = True
    """Whether phrases of the passages may be chosen."""

    no_repeat_subwords: AtLeastZero = 0
    """Never write the same stretch of this many subwords twice; 0 lets texts repeat, though answers
    never repeat 8."""

    max_phrase_uses: AtLeastZero = 0
    """How often one phrase may be chosen in a text; 0 means as often as it likes."""

    first_share: Share = 1.0
    """Share of the phrases offered from the start; the others come while the text grows."""

    growth_share: PositiveShare = 0.05
    """Share of the phrases added at a time, where not all are offered from the start."""

    growth_every: AtLeastOne = 10
    """Tokens between one growth and the next."""

    off_load_after: AtLeastZero = 0
    """Tokens after which a phrase that was not among the best is offered no longer; 0: never."""

    best_kept: AtLeastOne = 256
    """Phrases per token that count as among the best, and so are not off-loaded."""
