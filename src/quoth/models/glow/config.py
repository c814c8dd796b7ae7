"""What a GLOW encoder is: its network, its weights and its inputs, every open choice a field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quoth.errors import ConfigError

CHOICES: dict[str, tuple[str, ...]] = {
    "pooling": ("mean", "cls", "pooler"),
    "towers": ("shared", "separate"),
    "weighting": ("none", "row", "column", "add_log", "merge"),
    "weights": ("bm25", "idf"),
    "preset": ("paper", "code"),
    "idf": ("non_negative", "constant"),
    "bm25f": ("sum", "per_field"),
    "statistics": ("words", "subwords"),
    "special_weight": ("one", "mean", "unknown"),
    "unknown_words": ("rarest", "one"),
    "layout": ("joined", "fields"),
    "field_embeddings": ("per_field", "one"),
    "unit": ("passage", "document"),
}


@dataclass(frozen=True, slots=True)
class GlowConfig:
    """Settings of an encoder; they are saved with it."""

    num_layers: int = 0
    """Layers kept of the base encoder, from the bottom; 0 keeps all."""

    pooling: str = "mean"
    """How token states become a vector: mean, cls or pooler."""

    towers: str = "shared"
    """One encoder for both sides (shared), or two with tied word embeddings (separate)."""

    weighting: str = "none"
    """How BM25 weighs attention: none, row (released code), column (Eq. 2), add_log, merge."""

    strength: float = 1.0
    """Share of the weight that is used: w becomes 1 + strength · (w − 1)."""

    weights: str = "bm25"
    """What weighs a word: bm25 (queries Eq. 6, documents Eq. 7 and 8) or idf alone."""

    preset: str = "paper"
    """Constants of the weights: paper (raw tf, k1 2, b 0.75) or code (relative tf, .25, .4)."""

    idf: str = "constant"
    """Inverse document frequency: constant (N of 1e8, as in the paper) or non_negative."""

    bm25f: str = "sum"
    """A word's weight over all fields together (sum) or in each field apart (per_field)."""

    statistics: str = "words"
    """Count words, shared over their subwords (words), or subwords (subwords, GLOW_tw)."""

    mean_one: bool = False
    """Divide the weights of a sequence by their mean."""

    special_weight: str = "one"
    """Weight of CLS, SEP and punctuation: one, mean (the sequence's), or unknown: that of a
    word without statistics that stands once, as in the released code."""

    unknown_words: str = "rarest"
    """Weight of words without statistics: rarest (as if in one document) or one."""

    layout: str = "joined"
    """Fields joined by spaces, or fields: CLS field SEP field SEP with field embeddings."""

    field_embeddings: str = "per_field"
    """An embedding per field, or one for all (GLOW_us)."""

    fields: tuple[str, ...] = ("title", "name", "summary", "text")
    """Fields that are encoded where present, in this order; the last is the body, cut in units."""

    field_caps: Mapping[str, int] = field(default_factory=dict)
    """Most subwords of a field, with the layout fields: title=30,url=30."""

    field_weights: Mapping[str, float] = field(default_factory=dict)
    """BM25F weight of a field (Eq. 7), 1 unless named: title=2."""

    max_instances: int = 5
    """Instances of a repeated field that are encoded."""

    max_subwords: int = 256
    """Most subwords of a document, special ones included; the rest is cut and counted."""

    max_query_subwords: int = 64
    """Most subwords of a query, special ones included; the rest is cut and counted."""

    projection: int = 0
    """Length of the vectors, by a linear map for each side (RUMBArt's heads); 0 maps nothing."""

    unit: str = "passage"
    """What gets a vector: every passage of the body with the other fields, or the document."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        if self.num_layers < 0 or self.max_instances < 1:
            problems.append("num_layers must be ≥ 0 and max_instances ≥ 1")
        if self.projection and not 64 <= self.projection <= 768:
            problems.append(f"projection is {self.projection}, expected 0 or 64 to 768")
        if self.max_subwords < 8 or self.max_query_subwords < 4:
            problems.append("max_subwords must be ≥ 8 and max_query_subwords ≥ 4")
        if not 1 <= len(self.fields) <= self.max_subwords // 2:
            problems.append(
                f"fields holds {len(self.fields)} names, expected 1 to half of max_subwords"
            )
        if any(cap < 0 for cap in self.field_caps.values()):
            problems.append("field_caps holds a negative number")
        if problems:
            raise ConfigError("encoder: " + "; ".join(problems))
