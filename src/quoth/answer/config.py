"""Settings of answering; apart from what answers, so that `--help` needs no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from quoth.errors import ConfigError

SHIPPED = "dynamic-vocabulary"
"""The name of the language model with a dynamic vocabulary that `quoth-weights` holds."""

SHIPPED_READER = "reader"
"""The name of the reader that `quoth-weights` holds."""

_SOURCES = ("ngrams", "chunks")
_METHODS = ("greedy", "nucleus")
_NO_REPEAT_SUBWORDS = 8  # of answers; an answer never says the same twice


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How a question is answered from its passages."""

    model: str = SHIPPED
    """The language model: the shipped one, the folder of a trained one, or any causal language
    model by folder or hub name, which then answers without quoting."""

    reader: str = SHIPPED_READER
    """What finds the sentences that answer, which are then quoted: the shipped reader, or the
    folder of another; empty leaves answers to the language model."""

    passages_per_document: int = 3
    """Passages of each document that are read for a question."""

    most_quotations: int = 3
    """Most sentences quoted in an answer."""

    quotation_share: float = 0.5
    """A further sentence is quoted where its probability is at least this share of the first's."""

    quotation_words: int = 25
    """Longer sentences are quoted from one comma, or its like, to another around the answer."""

    prompt_subwords: int = 900
    """Most subwords of the passages in the prompt; later passages are cut, then left out."""

    max_question_chars: int = 2_000
    """Longest question that is answered, or text that is continued."""

    threshold: float = 0.7
    """Quoth says that the documents hold no answer where that is more probable; 1 means never."""

    phrase_first: bool = True
    """Begin answers with a phrase of the passages: whether to refuse is decided before."""

    far_penalty: float = 24.0
    """Taken off the score of a phrase that would begin an answer, for every 1.0 of cosine by which
    its sentence is further from the question than the nearest one; 0 leaves the choice to the
    language model alone."""

    splice_penalty: float = 8.0
    """Taken off the score of a phrase that stands elsewhere than where the phrase before it ended,
    in the middle of a sentence; 0 lets sentences be put together from several places."""

    cache_megabytes: int = 128
    """Room for the vectors of phrases kept with a collection, so that they are encoded once."""

    def __post_init__(self) -> None:
        problems = []
        if not self.model:
            problems.append(f"model is empty, expected {SHIPPED}, a folder or a hub name")
        if self.prompt_subwords < 64:
            problems.append(f"prompt_subwords is {self.prompt_subwords}, expected at least 64")
        if not 1 <= self.max_question_chars <= 10_000:
            problems.append(
                f"max_question_chars is {self.max_question_chars}, expected 1 to 10,000"
            )
        if not 0.0 <= self.threshold <= 1.0:
            problems.append(f"threshold is {self.threshold}, expected 0 to 1")
        for name in ("far_penalty", "splice_penalty"):
            if not 0.0 <= getattr(self, name) < math.inf:
                problems.append(f"{name} is {getattr(self, name)}, expected 0 or more")
        for name in ("passages_per_document", "most_quotations", "quotation_words"):
            if getattr(self, name) < 1:
                problems.append(f"{name} is {getattr(self, name)}, expected at least 1")
        if not 0.0 < self.quotation_share <= 1.0:
            problems.append(
                f"quotation_share is {self.quotation_share}, expected above 0, at most 1"
            )
        if self.cache_megabytes < 0:
            problems.append(f"cache_megabytes is {self.cache_megabytes}, expected 0 or more")
        if problems:
            raise ConfigError("answer: " + "; ".join(problems))

    def for_answering(self, decoding: DecodingConfig) -> DecodingConfig:
        """Return the decoding of answers: no repetitions, and quotations that hold together."""
        return replace(
            decoding,
            no_repeat_subwords=decoding.no_repeat_subwords or _NO_REPEAT_SUBWORDS,
            phrase_first=self.phrase_first or decoding.phrase_first,
            splice_penalty=max(self.splice_penalty, decoding.splice_penalty),
        )

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
class CandidateConfig:
    """Which phrases of the passages are offered to the language model."""

    source: str = "ngrams"
    """ngrams: every stretch of whole words; chunks: noun phrases and names."""

    min_subwords: int = 2
    """Fewest subwords of a phrase; 1 lets in single words, stop words left out."""

    max_subwords: int = 8
    """Most subwords of a phrase."""

    max_candidates: int = 1_000
    """Most phrases offered; those of the sentences nearest to the question come first."""

    def __post_init__(self) -> None:
        problems = []
        if self.source not in _SOURCES:
            problems.append(f"source is {self.source!r}, expected {' or '.join(_SOURCES)}")
        if not 1 <= self.min_subwords <= self.max_subwords:
            problems.append(
                f"min_subwords is {self.min_subwords}, expected 1 to max_subwords"
                f" ({self.max_subwords})"
            )
        if self.max_subwords > 64:
            problems.append(f"max_subwords is {self.max_subwords}, expected at most 64")
        if self.max_candidates < 0:
            problems.append(f"max_candidates is {self.max_candidates}, expected 0 or more")
        if problems:
            raise ConfigError("candidates: " + "; ".join(problems))


@dataclass(frozen=True, slots=True)
class DecodingConfig:
    """How a text is generated, token by token."""

    method: str = "greedy"
    """greedy: always the best token; nucleus: drawn from the most probable ones."""

    nucleus: float = 0.95
    """Share of probability that nucleus draws from."""

    temperature: float = 1.0
    """Divides scores before nucleus draws; below 1 it is more cautious."""

    seed: int = 0
    """Seed of drawing; the same for every text of a batch."""

    max_subwords: int = 128
    """Longest generated text, in subwords with phrases written out."""

    phrases: bool = True
    """Whether phrases of the passages may be chosen."""

    no_repeat_subwords: int = 0
    """Never write the same stretch of this many subwords twice; 0 lets texts repeat, though answers
    never repeat 8."""

    phrase_first: bool = False
    """Begin with a phrase, where any is on offer; answers do by `answer.phrase_first`."""

    splice_penalty: float = 0.0
    """As `answer.splice_penalty`, of which the larger one counts for answers."""

    max_phrase_uses: int = 0
    """How often one phrase may be chosen in a text; 0 means as often as it likes."""

    first_share: float = 1.0
    """Share of the phrases offered from the start; the others come while the text grows."""

    growth_share: float = 0.05
    """Share of the phrases added at a time, where not all are offered from the start."""

    growth_every: int = 10
    """Tokens between one growth and the next."""

    off_load_after: int = 0
    """Tokens after which a phrase that was not among the best is offered no longer; 0: never."""

    best_kept: int = 256
    """Phrases per token that count as among the best, and so are not off-loaded."""

    def __post_init__(self) -> None:
        problems = []
        if self.method not in _METHODS:
            problems.append(f"method is {self.method!r}, expected {' or '.join(_METHODS)}")
        for name in ("nucleus", "growth_share"):
            if not 0.0 < getattr(self, name) <= 1.0:
                problems.append(f"{name} is {getattr(self, name)}, expected above 0, at most 1")
        if not 0.0 <= self.first_share <= 1.0:
            problems.append(f"first_share is {self.first_share}, expected 0 to 1")
        if not self.splice_penalty >= 0.0:
            problems.append(f"splice_penalty is {self.splice_penalty}, expected 0 or more")
        if not self.temperature > 0.0:
            problems.append(f"temperature is {self.temperature}, expected above 0")
        for name in ("max_subwords", "growth_every", "best_kept"):
            if getattr(self, name) < 1:
                problems.append(f"{name} is {getattr(self, name)}, expected at least 1")
        for name in ("no_repeat_subwords", "max_phrase_uses", "off_load_after"):
            if getattr(self, name) < 0:
                problems.append(f"{name} is {getattr(self, name)}, expected 0 or more")
        if problems:
            raise ConfigError("decoding: " + "; ".join(problems))
