"""Settings of generative search; apart from it, so that `--help` needs neither numba nor torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from quoth.constraints import AtLeastOne, AtLeastZero, OneOf, Range, Share, Text, matches, not_empty
from quoth.search.generative.aggregate_config import METHODS, POSTINGS, AggregateConfig
from quoth.search.generative.decode.config import DecodeConfig

IDENTIFIERS = "identifiers"
"""As a source of names: the identifiers that the collection keeps for a document."""

NO_GENERATOR = "none"
_MOST_PHRASES = 255


@dataclass(frozen=True, slots=True)
class GenerativeConfig(DecodeConfig, title="generative"):
    """How documents are named by identifiers, and found by generating these (`DecodeConfig`)."""

    model: Annotated[str, matches(r"(?!\.)[^/\\]*", "the name of a folder, no path")] = ""
    """Model in the collection's folder "generative"; empty takes the one saved last, if any."""

    sources: Annotated[tuple[Text, ...], not_empty("identifiers or names of fields")] = (
        "title",
        "name",
        IDENTIFIERS,
    )
    """Where identifiers come from, the first that has any: identifiers (stored), or fields."""

    generator: Annotated[str, not_empty("query-generator, a folder or none")] = "query-generator"
    """Writes identifiers of documents that have none kept: the shipped one, a folder, or none."""

    written: AtLeastOne = 5
    """Identifiers that the generator writes for each passage of such a document."""

    sentences: Annotated[int, Range(0, 1_000)] = 20
    """Most sentences and clauses that name a document for each 180 words of its text; 0: none."""

    clause_words: Annotated[int, Range(4, 200)] = 24
    """Longest such name, in words; a longer sentence is cut into clauses."""

    titled: bool = True
    """Put the document's title before each sentence that names it, instead of being a name."""

    per_document: AtLeastOne = 200
    """Most identifiers of a document."""

    max_phrases: Annotated[int, Range(1, _MOST_PHRASES)] = 64
    """Longest identifier, in phrases; the rest of a longer one is cut off."""

    weighting: Annotated[str, OneOf("rarity", "none")] = "rarity"
    """With order = bag_cos: phrases count by their rarity, -log of their share, or alike: none."""

    aggregate: Annotated[str, OneOf(*METHODS)] = "max"
    """How identifiers make a document's score: max, logsumexp, seal or rank."""

    posting: Annotated[str, OneOf(*POSTINGS)] = "ignore"
    """Whether owners share an identifier's evidence: ignore how many there are, or divide."""

    temperature: Annotated[float, Range(above=0, most=1_000)] = 1.0
    """With aggregate = logsumexp: the higher, the more identifiers count beside the best."""

    odds_power: Annotated[float, Range(above=0, most=10)] = 2.0
    """With aggregate = seal: log-odds count to this power."""

    repetition: Share = 0.8
    """With aggregate = seal: share of an identifier's weight that its new phrases earn."""

    lift: Annotated[float, Range(-1_000, 1_000)] = 0.0
    """With aggregate = seal: added to each identifier's score."""

    constant: AtLeastZero = 60
    """With aggregate = rank: an identifier adds 1 / (constant + rank)."""

    def decoding(self, *, depth: int = 0) -> DecodeConfig:
        """Return the settings of decoding, to the depth configured or another."""
        own = {each.name: getattr(self, each.name) for each in fields(DecodeConfig)}
        return DecodeConfig(**{**own, "depth": depth or self.depth})

    def aggregation(self) -> AggregateConfig:
        """Return the settings of aggregation."""
        return AggregateConfig(
            method=self.aggregate,
            posting=self.posting,
            temperature=self.temperature,
            alpha=self.odds_power,
            beta=self.repetition,
            lift=self.lift,
            constant=self.constant,
        )
