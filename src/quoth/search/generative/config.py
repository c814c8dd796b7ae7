"""Settings of generative search; apart from it, so that `--help` needs neither numba nor torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from quoth.constraints import AtLeastOne, AtLeastZero, OneOf, Range, Share, Text, matches, not_empty
from quoth.search.generative.aggregate_config import METHODS, POSTINGS, AggregateConfig
from quoth.search.generative.decode.config import COSINES, DecodeConfig

IDENTIFIERS = "identifiers"
"""As a source of names: the identifiers that the collection keeps for a document."""

NO_GENERATOR = "none"
_MOST_PHRASES = 255


@dataclass(frozen=True, slots=True)
class GenerativeConfig(DecodeConfig, title="generative"):
    """How documents are named by identifiers, and found by generating these (`DecodeConfig`)."""

    model: Annotated[str, matches(r"(?!\.)[^/\\]*", "the name of a folder, no path")] = ""
    """Model in the folder "generative" of the collection; empty takes the latest, if any."""

    sources: Annotated[tuple[Text, ...], not_empty("identifiers or names of fields")] = (
        "title",
        "name",
        IDENTIFIERS,
    )
    """Where identifiers come from, all of these together, the first ones first if there are too
    many; identifiers means stored ones, anything else is a field."""

    generator: Annotated[str, not_empty("query-generator, a folder or none")] = "query-generator"
    """Query generator for documents without stored identifiers: the bundled one, a folder, or
    none."""

    written: AtLeastOne = 5
    """Identifiers written per passage of such a document."""

    sentences: Annotated[int, Range(0, 1_000)] = 20
    """Maximum sentences and clauses used as identifiers per 180 words of a document; 0 uses
    none."""

    clause_words: Annotated[int, Range(4, 200)] = 24
    """Longest such identifier, in words; longer sentences are split into clauses."""

    titled: bool = True
    """Prefix each such identifier with the document's title, rather than using the title as an
    identifier."""

    per_document: AtLeastOne = 200
    """Maximum identifiers per document."""

    max_phrases: Annotated[int, Range(1, _MOST_PHRASES)] = 64
    """Longest identifier, in phrases; longer ones are truncated."""

    new_words: bool = True
    """Give a word that the model's vocabulary lacks a phrase of its own when a document that has it
    is added, if the model can read it (one that started from the bundled network can); if false,
    such words are cut into parts."""

    weighting: Annotated[str, OneOf("rarity", "none")] = "rarity"
    """With order = bag_cos or bag_max: weight phrases by rarity (-log of their share), or equally
    (none)."""

    aggregate: Annotated[str, OneOf(*METHODS)] = "max"
    """How identifier scores are aggregated per document: max, logsumexp, seal or rank."""

    mean_share: Share = 0.5
    """With aggregate = max and order = bag_cos or bag_max: a document's score is that of its best
    identifier and this share of the mean of all its identifiers; 0 leaves the best alone."""

    posting: Annotated[str, OneOf(*POSTINGS)] = "ignore"
    """Whether an identifier's score is shared among its documents: ignore (each gets all of it) or
    divide."""

    temperature: Annotated[float, Range(above=0, most=1_000)] = 1.0
    """With aggregate = logsumexp: the higher, the more identifiers besides the best one count."""

    odds_power: Annotated[float, Range(above=0, most=10)] = 2.0
    """With aggregate = seal: power to which log-odds are raised."""

    repetition: Share = 0.8
    """With aggregate = seal: share of an identifier's weight that its new phrases earn."""

    lift: Annotated[float, Range(-1_000, 1_000)] = 0.0
    """With aggregate = seal: constant added to each identifier's score."""

    constant: AtLeastZero = 60
    """With aggregate = rank: an identifier adds 1 / (constant + rank)."""

    @property
    def counts_all(self) -> bool:
        """Whether all identifiers of a document count, beside its best one."""
        return self.mean_share > 0 and self.aggregate == "max" and self.order in COSINES

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
