"""What a GLOW encoder is: its network, its weights and its inputs, every open choice a field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from quoth.constraints import (
    FREE,
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    Names,
    NonNegative,
    OneOf,
    Range,
)

NUM_FIELDS = 16
"""Fields that can have an embedding of their own."""

Pooling = Annotated[str, OneOf("mean", "cls", "pooler")]
Towers = Annotated[str, OneOf("shared", "separate")]
Weighting = Annotated[str, OneOf("none", "row", "column", "add_log", "merge")]
Layout = Annotated[str, OneOf("joined", "fields")]
Projection = Annotated[int, Range(64, 768, or_zero=True)]


@dataclass(frozen=True, slots=True)
class GlowConfig(CheckedConfig, title="encoder"):
    """Settings of an encoder; they are saved with it."""

    num_layers: AtLeastZero = 0
    """Layers kept of the base encoder, from the bottom; 0 keeps all."""

    pooling: Pooling = "mean"
    """How token states become a vector: mean, cls or pooler."""

    towers: Towers = "shared"
    """One encoder for queries and documents (shared), or two with tied embeddings (separate)."""

    weighting: Weighting = "none"
    """How BM25 weighs attention: none, row (released code), column (Eq. 2), add_log, merge."""

    strength: Annotated[float, FREE] = 1.0
    """Share of the weight that is used: w becomes 1 + strength · (w − 1)."""

    weights: Annotated[str, OneOf("bm25", "idf")] = "bm25"
    """What weighs a word: bm25 (queries Eq. 6, documents Eq. 7 and 8) or idf alone."""

    preset: Annotated[str, OneOf("paper", "code")] = "paper"
    """Constants of the weights: paper (raw tf, k1 2, b 0.75) or code (relative tf, .25, .4)."""

    query_length: NonNegative = 0.0
    """Mean number of words of queries (avl_q of Eq. 6); 0 takes that of the queries trained with,
    or 6, as the released code does."""

    idf: Annotated[str, OneOf("non_negative", "constant")] = "constant"
    """Inverse document frequency: constant (N of 1e8, as in the paper) or non_negative."""

    bm25f: Annotated[str, OneOf("sum", "per_field")] = "sum"
    """A word's weight over all fields together (sum) or in each field apart (per_field)."""

    statistics: Annotated[str, OneOf("words", "subwords")] = "words"
    """Count words, shared over their subwords (words), or subwords (subwords, GLOW_tw)."""

    mean_one: bool = False
    """Divide the weights of a sequence by their mean."""

    special_weight: Annotated[str, OneOf("one", "mean", "unknown")] = "one"
    """Weight of CLS, SEP and punctuation: one, mean (the sequence's), or unknown: that of a
    word without statistics that stands once, as in the released code."""

    unknown_words: Annotated[str, OneOf("rarest", "one")] = "rarest"
    """Weight of words without statistics: rarest (as if in one document) or one."""

    layout: Layout = "joined"
    """Fields joined by spaces, or fields: CLS field SEP field SEP with field embeddings."""

    field_embeddings: Annotated[str, OneOf("per_field", "one")] = "per_field"
    """An embedding per field, or one for all (GLOW_us)."""

    fields: Names = ("title", "name", "summary", "text")
    """Fields that are encoded where present, in this order; the last is the body, cut in units."""

    field_caps: Mapping[str, AtLeastZero] = field(default_factory=dict)
    """Most subwords of a field, with the layout fields: title=30,url=30."""

    field_weights: Mapping[str, Annotated[float, FREE]] = field(default_factory=dict)
    """BM25F weight of a field (Eq. 7), 1 unless named: title=2."""

    max_instances: AtLeastOne = 5
    """Instances of a repeated field that are encoded."""

    max_subwords: Annotated[int, Range(8)] = 256
    """Most subwords of a document, special ones included; the rest is cut and counted."""

    max_query_subwords: Annotated[int, Range(4)] = 64
    """Most subwords of a query, special ones included; the rest is cut and counted."""

    projection: Projection = 0
    """Length of the vectors, by one linear map for queries and one for documents; 0: no map."""

    unit: Annotated[str, OneOf("passage", "document")] = "passage"
    """What gets a vector: every passage of the body with the other fields, or the document."""

    def conflicts(self) -> Iterator[str]:
        """Say where the fields leave no room for words."""
        if not 1 <= len(self.fields) <= self.max_subwords // 2:
            yield f"fields holds {len(self.fields)} names, expected 1 to half of max_subwords"
