"""What each word of a query or document weighs (GLOW, Eq. 6 to 8, and the released code's way)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quoth.models.glow.config import GlowConfig
from quoth.text.words import Analyser
from quoth.vocabulary.term_counts import EVERYTHING
from quoth.vocabulary.weighting import (
    bm25f_tf,
    document_weight,
    inverse_document_frequency,
    paper_idf,
    query_weight,
    relative_weight,
)

FIELD_B = 0.75
AVERAGE_QUERY_LENGTH = 6.0
CODE_DOCUMENT_LENGTH = 25.0
PAPER_RATIO = 31.0
"""How many times the paper's constant N exceeds the documents it counted (1e8 to 3.2 million)."""

_LOWEST, _HIGHEST = 1e-3, 20.0
_FILLER = "\0"  # stands for all other words, where only their number matters

FieldWords = Sequence[tuple[str, Counter[str]]]
"""The terms of a document with their number, field by field."""


class WordCounts(Protocol):
    """What weights need to know of a collection; `vocabulary.statistics.Statistics` is one."""

    @property
    def num_documents(self) -> int:
        """Documents counted."""
        ...

    def document_frequencies(self, view: str, terms: Iterable[str]) -> Mapping[str, int]:
        """Number of documents that hold each term; terms never seen are left out."""
        ...

    def average_lengths(self) -> Mapping[str, float]:
        """Mean number of terms per view."""
        ...


@dataclass(frozen=True, slots=True)
class CountedWords:
    """A collection's counts, the analyser that found its words, and how long encoded texts are."""

    counts: WordCounts
    analyser: Analyser
    lengths: Mapping[str, float] = field(default_factory=dict)
    """Mean number of terms of fields that are encoded part by part, not as documents have them."""

    @property
    def num_documents(self) -> int:
        """Documents counted."""
        return self.counts.num_documents

    def document_frequencies(self, view: str, terms: Iterable[str]) -> Mapping[str, int]:
        """Number of documents that hold each term; terms never seen are left out."""
        return self.counts.document_frequencies(view, terms)

    def average_lengths(self) -> Mapping[str, float]:
        """Mean number of terms per view of what is encoded."""
        return {**self.counts.average_lengths(), **self.lengths}


class WordWeights:
    """Weights of words under one configuration and one collection's counts."""

    def __init__(self, config: GlowConfig, counts: WordCounts) -> None:
        self._config = config
        self._counts = counts
        self._averages = counts.average_lengths()

    def query(self, words: Counter[str]) -> dict[str, float]:
        """Weigh the words of a query (Eq. 6)."""
        idfs, length = self._idfs(words), sum(words.values())
        if self._config.weights == "idf":
            return idfs
        average = self._config.query_length or AVERAGE_QUERY_LENGTH
        if self._config.preset == "paper":
            return {
                term: query_weight(tf, idf=idfs[term], length=length, average=average)
                for term, tf in words.items()
            }
        return self._relative(words, idfs, average=average, num_special=2)

    def unknown_in_query(self, words: Counter[str]) -> float:
        """Weigh a word that no document holds, standing once in a query beside these words."""
        return self.query(Counter({"": 1, _FILLER: max(0, words.total() - 1)}))[""]

    def unknown_in_document(self, fields: FieldWords) -> float:
        """Weigh a word that no document holds, standing once in a document beside these words."""
        (name, words), *rest = fields
        fillers = [(other, Counter({_FILLER: each.total()})) for other, each in rest]
        first = (name, Counter({"": 1, _FILLER: max(0, words.total() - 1)}))
        return self.document([first, *fillers])[name, ""]

    def document(self, fields: FieldWords) -> dict[tuple[str, str], float]:
        """Weigh the words of a document in each of its fields (Eq. 7 and 8)."""
        total = Counter(term for _name, words in fields for term in words.elements())
        idfs = self._idfs(total)
        if self._config.weights == "idf":
            single = idfs
        elif self._config.preset == "code":
            special = 1 + len(fields)
            single = self._relative(total, idfs, average=CODE_DOCUMENT_LENGTH, num_special=special)
        elif self._config.bm25f == "sum":
            single = {t: document_weight(self._joined(t, fields), idf=idfs[t]) for t in total}
        else:
            return {
                (name, term): document_weight(self._joined(term, [(name, words)]), idf=idfs[term])
                for name, words in fields
                for term in words
            }
        return {(name, term): single[term] for name, words in fields for term in words}

    def _joined(self, term: str, fields: FieldWords) -> float:
        lengths = [float(sum(words.values())) for _name, words in fields]
        return bm25f_tf(
            [words[term] for _name, words in fields],
            lengths=lengths,
            averages=[
                self._averages.get(name) or length
                for (name, _words), length in zip(fields, lengths, strict=True)
            ],
            weights=[self._config.field_weights.get(name, 1.0) for name, _words in fields],
            bs=[FIELD_B] * len(fields),
        )

    def _relative(
        self, words: Counter[str], idfs: Mapping[str, float], *, average: float, num_special: int
    ) -> dict[str, float]:
        length = words.total() + num_special  # the code counts [CLS] and every [SEP] as words
        return {
            term: relative_weight(tf, idf=idfs[term], length=length, average=average)
            for term, tf in words.items()
        }

    def _idfs(self, words: Iterable[str]) -> dict[str, float]:
        terms = list(words)
        found = self._counts.document_frequencies(EVERYTHING, terms)
        return {term: self._idf(found.get(term)) for term in terms}

    def _idf(self, df: int | None) -> float:
        if df is None and self._config.unknown_words == "one":
            return 1.0
        if self._config.idf == "constant":
            return paper_idf(df or 1)
        if self._config.idf == "scaled":
            return paper_idf(df or 1, constant=PAPER_RATIO * max(1, self._counts.num_documents))
        return inverse_document_frequency(df or 1, num_documents=self._counts.num_documents)


def spread(weights: Sequence[float | None], config: GlowConfig, *, unknown: float) -> list[float]:
    """Finish the weights of a sequence: None, outside words, takes the policy; then the strength.

    >>> spread([None, 3.0, 1.0], GlowConfig(mean_one=True), unknown=9.0)
    [1.0, 1.5, 0.5]
    >>> spread([None, 3.0], GlowConfig(strength=0.5), unknown=9.0)
    [1.0, 2.0]
    """
    known = [weight for weight in weights if weight is not None]
    mean = sum(known) / len(known) if known else 1.0
    scale = mean if config.mean_one else 1.0
    outside = {"one": 1.0, "mean": mean / scale, "unknown": unknown / scale}[config.special_weight]
    raw = (outside if weight is None else weight / scale for weight in weights)
    return [min(_HIGHEST, max(_LOWEST, 1.0 + config.strength * (weight - 1.0))) for weight in raw]
