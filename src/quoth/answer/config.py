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
    """The language model: the bundled one, the folder of one you trained, or any causal language
    model by folder or hub name, which then answers without quoting."""

    reader: Text = SHIPPED_READER
    """Model that finds the sentences to quote: the bundled reader, or a folder with another; if
    empty, the language model answers alone."""

    wording: Annotated[str, OneOf("quoted", "written")] = "quoted"
    """quoted: the sentences that the reader found, verbatim; written: the language model writes the
    answer from phrases of their passages, guided by the reader."""

    guidance: NonNegative = 2.0
    """With wording = written: how much the reader counts; added to a phrase's score per unit of its
    sentence's log-probability."""

    written_passages: AtLeastOne = 3
    """With wording = written: maximum passages in the prompt, those with the most probable
    sentences."""

    passages_per_document: AtLeastOne = 3
    """Passages per document that are read for a question."""

    nearness_weight: NonNegative = 2.3
    """Weight of the cosine of the question and a sentence with the one before it, added to the
    reader's score.

    Fitted on held-out training questions together with the weights of the reader's scores; 0 goes
    by the reader alone, and no sentence is encoded."""

    most_quotations: AtLeastOne = 3
    """Maximum sentences quoted in an answer."""

    quotation_share: PositiveShare = 0.3
    """Quote another sentence if its probability is at least this share of the first one's."""

    quotation_words: AtLeastOne = 25
    """Sentences with more words than this are trimmed to the clauses around the answer."""

    further_words: AtLeastOne = 12
    """The same for sentences after the first, which give another answer; not for questions that ask
    how or why."""

    long_words: AtLeastOne = 45
    """Maximum words of a quotation and its neighbour together, for questions that ask how or why;
    below `quotation_words`, sentences are never joined."""

    prompt_subwords: Annotated[int, Range(64)] = 900
    """Maximum subwords of passages in the prompt; later passages are truncated, then left out."""

    max_question_chars: Annotated[int, Range(1, 10_000)] = 2_000
    """Longest question to answer or text to continue, in characters."""

    threshold: Share = 0.46
    """Refuse to answer if the probability that the answer is wrong (one minus the support) is above
    this; 1 means never."""

    phrase_first: bool = True
    """Begin answers with a phrase from the passages; whether to answer at all is decided before."""

    far_penalty: NonNegative = 24.0
    """Penalty on a phrase that begins an answer, per unit of cosine by which its sentence is
    further from the question than the nearest one; 0 leaves the choice to the language model."""

    splice_penalty: NonNegative = 8.0
    """Penalty on a phrase that does not continue where the previous one ended, in mid-sentence; 0
    allows sentences that combine several places."""

    cache_megabytes: AtLeastZero = 128
    """Cache of phrase vectors in the collection, in megabytes, so that each is encoded once."""

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
    """ngrams offers every run of whole words; chunks offers noun phrases and names."""

    min_subwords: AtLeastOne = 2
    """Minimum subwords per phrase; 1 allows single words other than stop words."""

    max_subwords: Annotated[int, Range(1, 64)] = 8
    """Maximum subwords per phrase."""

    max_candidates: AtLeastZero = 1_000
    """Maximum phrases offered; those from the sentences nearest to the question come first."""

    max_continued: AtLeastZero = 25_000
    """Maximum phrases offered by `quoth generate`."""

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
    """greedy takes the best token each time; nucleus samples from the most probable ones."""

    nucleus: PositiveShare = 0.95
    """Probability mass that nucleus samples from."""

    temperature: Positive = 1.0
    """Sampling temperature of nucleus; below 1 it is more conservative."""

    seed: Seed = 0
    """Sampling seed, the same for every text of a batch."""

    max_subwords: AtLeastOne = 128
    """Maximum length of the generated text, in subwords, phrases included."""

    phrases: bool = True
    """Allow phrases from the passages."""

    no_repeat_subwords: AtLeastZero = 0
    """Never write the same sequence of this many subwords twice; 0 allows repetition, though
    answers never repeat 8."""

    max_phrase_uses: AtLeastZero = 0
    """Maximum uses of one phrase in a text; 0 means no limit."""

    first_share: Share = 1.0
    """Share of the phrases offered from the start; the rest are added as the text grows."""

    growth_share: PositiveShare = 0.05
    """Share of the phrases added at a time, if first_share is below 1."""

    growth_every: AtLeastOne = 10
    """Tokens between additions of phrases."""

    off_load_after: AtLeastZero = 0
    """Tokens after which a phrase that never ranked among the best is dropped; 0 means never."""

    best_kept: AtLeastOne = 256
    """Phrases per token that count as among the best."""
