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

    spread_layers: bool = False
    """Keep layers at even distances from the first to the last instead of the lowest ones."""

    pooling: Pooling = "mean"
    """How token states become a vector: mean, cls or pooler."""

    towers: Towers = "shared"
    """One encoder for queries and documents (shared), or two with tied embeddings (separate)."""

    weighting: Weighting = "none"
    """How BM25 weights attention: none, row (as in the released code), column (equation 2), add_log
    or merge."""

    strength: Annotated[float, FREE] = 1.0
    """How much of the weight is applied: w becomes 1 + strength · (w − 1)."""

    weights: Annotated[str, OneOf("bm25", "idf")] = "bm25"
    """What a word's weight is: bm25 (equation 6 for queries, 7 and 8 for documents) or idf
    alone."""

    preset: Annotated[str, OneOf("paper", "code")] = "paper"
    """Constants of the weights: paper (raw tf, k1 2, b 0.75) or code (relative tf, k1 0.25, b
    0.4)."""

    query_length: NonNegative = 0.0
    """Mean number of words per query (avl_q in equation 6); 0 takes that of the training queries,
    or 6, as the released code does."""

    idf: Annotated[str, OneOf("non_negative", "constant", "scaled")] = "constant"
    """Inverse document frequency: constant (with N = 1e8, as in the paper), scaled (with N = 31
    times the documents, the paper's ratio) or non_negative."""

    bm25f: Annotated[str, OneOf("sum", "per_field")] = "sum"
    """Weight of a word over all fields together (sum) or in each field separately (per_field)."""

    statistics: Annotated[str, OneOf("words", "subwords")] = "words"
    """What is counted: words, with each weight shared by the subwords of its word, or subwords
    (GLOW_tw)."""

    mean_one: bool = False
    """Divide the weights of a sequence by their mean."""

    special_weight: Annotated[str, OneOf("one", "mean", "unknown")] = "one"
    """Weight of CLS, SEP and punctuation: one, mean (of the sequence), or unknown (that of a single
    word without statistics, as in the released code)."""

    unknown_words: Annotated[str, OneOf("rarest", "one")] = "rarest"
    """Weight of words without statistics: rarest (as if one document had them) or one."""

    layout: Layout = "joined"
    """joined puts the fields into one text; fields writes CLS field SEP field SEP with field
    embeddings."""

    field_embeddings: Annotated[str, OneOf("per_field", "one")] = "per_field"
    """One embedding per field (per_field), or a single one for all (one, GLOW_us)."""

    fields: Names = ("title", "name", "summary", "text")
    """Fields to encode where present, in this order; the last is the body, which is split into
    units."""

    field_caps: Mapping[str, AtLeastZero] = field(default_factory=dict)
    """Maximum subwords per field, with layout = fields: title=30,url=30."""

    field_weights: Mapping[str, Annotated[float, FREE]] = field(default_factory=dict)
    """BM25F weight per field (equation 7), 1 unless listed: title=2."""

    max_instances: AtLeastOne = 5
    """Maximum values of a repeated field to encode."""

    max_subwords: Annotated[int, Range(8)] = 256
    """Maximum subwords per document, special ones included; the rest is truncated and counted."""

    max_query_subwords: Annotated[int, Range(4)] = 64
    """Maximum subwords per query, special ones included; the rest is truncated and counted."""

    projection: Projection = 0
    """Dimensions of the vectors, by one linear map for queries and one for documents; 0 adds no
    map."""

    unit: Annotated[str, OneOf("passage", "document")] = "passage"
    """What gets a vector: each passage of the body together with the other fields, or the
    document."""

    def conflicts(self) -> Iterator[str]:
        """Say where the fields leave no room for words."""
        if not 1 <= len(self.fields) <= self.max_subwords // 2:
            yield f"fields holds {len(self.fields)} names, expected 1 to half of max_subwords"
