"""Settings of generative search; apart from it, so that `--help` needs neither numba nor torch."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError
from quoth.search.generative.aggregate_config import AggregateConfig
from quoth.search.generative.decode.config import DecodeConfig

IDENTIFIERS = "identifiers"
"""As a source of names: the identifiers that the collection keeps for a document."""

NO_GENERATOR = "none"
WEIGHTINGS = ("rarity", "none")
_MOST_PHRASES = 255


@dataclass(frozen=True, slots=True)
class GenerativeConfig:
    """How documents are named by identifiers, and found by generating these."""

    model: str = ""
    """Model in the collection's folder "generative"; empty takes the one saved last, if any."""

    sources: tuple[str, ...] = ("title", "name", IDENTIFIERS)
    """What names a document, first come first: identifiers (those kept for it), or fields."""

    generator: str = "query-generator"
    """Writes identifiers of documents that have none kept: the shipped one, a folder, or none."""

    written: int = 5
    """Identifiers that the generator writes for each passage of such a document."""

    per_document: int = 200
    """Most identifiers of a document."""

    max_phrases: int = 64
    """Longest identifier, in phrases; the rest of a longer one is cut off."""

    weighting: str = "rarity"
    """With order = bag_cos: phrases count by their rarity, -log of their share, or alike: none."""

    order: str = "bag_cos"
    """Which score a phrase gets: ordered, perm_slots, bag, sorted_trie, pooled or bag_cos."""

    length: str = "mean"
    """What makes lengths comparable: none, mean, power (of alpha) or end; not used by bag_cos."""

    alpha: float = 1.0
    """With length = power: the sum is divided by the number of phrases to this power."""

    method: str = "exact"
    """exact or best_first (the same by another way), or quicker: skim (by reach) or beam."""

    depth: int = 300
    """Identifiers decoded for a query at first; more where they name too few documents."""

    reach: int = 50_000
    """With method = skim: identifiers looked at, those whose rarest phrase scores best first."""

    beam: int = 64
    """With method = beam: states kept at each depth, for each length of identifier."""

    missing: str = "exclude"
    """Identifiers with a phrase outside the shortlist: exclude them, or floor that phrase."""

    floor: float = -20.0
    """With missing = floor: what a phrase outside the shortlist adds."""

    aggregate: str = "max"
    """How identifiers make a document's score: max, logsumexp, seal or rank."""

    posting: str = "ignore"
    """Whether owners share an identifier's evidence: ignore how many there are, or divide."""

    odds_power: float = 2.0
    """With aggregate = seal: log-odds count to this power."""

    repetition: float = 0.8
    """With aggregate = seal: share of an identifier's weight that its new phrases earn."""

    lift: float = 0.0
    """With aggregate = seal: added to each identifier's score."""

    constant: int = 60
    """With aggregate = rank: an identifier adds 1 / (constant + rank)."""

    def __post_init__(self) -> None:
        problems = []
        if "/" in self.model or "\\" in self.model or self.model.startswith("."):
            problems.append(f'model is "{self.model}", expected the name of a folder, no path')
        if not self.sources:
            problems.append("sources is empty, expected identifiers or names of fields")
        if not self.generator:
            problems.append("generator is empty, expected query-generator, a folder or none")
        for name in ("per_document", "written"):
            if getattr(self, name) < 1:
                problems.append(f"{name} is {getattr(self, name)}, expected 1 or more")
        if not 1 <= self.max_phrases <= _MOST_PHRASES:
            problems.append(f"max_phrases is {self.max_phrases}, expected 1 to {_MOST_PHRASES}")
        if self.weighting not in WEIGHTINGS:
            expected = ", ".join(WEIGHTINGS)
            problems.append(f'weighting is "{self.weighting}", expected one of {expected}')
        for make in (self.decoding, self.aggregation):
            try:
                make()
            except ConfigError as error:
                problems.append(str(error))
        if problems:
            raise ConfigError(f"generative: {'; '.join(problems)}")

    def decoding(self, *, depth: int = 0) -> DecodeConfig:
        """Return the settings of decoding, to the depth configured or another."""
        return DecodeConfig(
            method=self.method,
            order=self.order,
            length=self.length,
            alpha=self.alpha,
            depth=depth or self.depth,
            reach=self.reach,
            beam=self.beam,
            missing=self.missing,
            floor=self.floor,
        )

    def aggregation(self) -> AggregateConfig:
        """Return the settings of aggregation."""
        return AggregateConfig(
            method=self.aggregate,
            posting=self.posting,
            alpha=self.odds_power,
            beta=self.repetition,
            lift=self.lift,
            constant=self.constant,
        )
