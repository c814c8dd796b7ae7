"""Settings of lexical search that can change from query to query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quoth.constraints import CheckedConfig, NonNegative, Share
from quoth.vocabulary.term_counts import EVERYTHING


@dataclass(frozen=True, slots=True)
class LexicalConfig(CheckedConfig, title="lexical"):
    """Settings of lexical search that can change from query to query."""

    boosts: Mapping[str, NonNegative] = field(default_factory=lambda: {"text": 0.0})
    """Extra weight of a match in a field, on top of the 1.0 of a match anywhere:
    title=0.5,url=0."""

    default_boost: NonNegative = 0.3
    """Extra weight of a match in a field that boosts does not list."""

    compact_share: Share = 0.1
    """Rebuild the index once removed documents make up this share of it."""

    def weights(self, fields: Iterable[str]) -> tuple[tuple[str, float], ...]:
        """List the views that free text is scored in, the whole document first.

        >>> LexicalConfig().weights(["title", "text"])
        (('*', 1.0), ('title', 0.3))
        """
        named = ((name, self.boosts.get(name, self.default_boost)) for name in fields)
        return ((EVERYTHING, 1.0), *((name, weight) for name, weight in named if weight > 0))
