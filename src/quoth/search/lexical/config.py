"""Settings of lexical search that can change from query to query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quoth.errors import ConfigError
from quoth.vocabulary.statistics import EVERYTHING


@dataclass(frozen=True, slots=True)
class LexicalConfig:
    """Settings of lexical search that can change from query to query."""

    boosts: Mapping[str, float] = field(default_factory=lambda: {"text": 0.0})
    """Extra weight of a match in a field, over the 1.0 of a match anywhere: title=0.5,url=0."""

    default_boost: float = 0.3
    """Extra weight of a match in any field that boosts does not name."""

    compact_share: float = 0.1
    """Rebuild the index once removed documents make up this share of it."""

    def __post_init__(self) -> None:
        problems = [
            f"boosts.{name} is {weight}, expected 0 or more"
            for name, weight in self.boosts.items()
            if not weight >= 0
        ]
        if not self.default_boost >= 0:
            problems.append(f"default_boost is {self.default_boost}, expected 0 or more")
        if not 0 <= self.compact_share <= 1:
            problems.append(f"compact_share is {self.compact_share}, expected 0 to 1")
        if problems:
            raise ConfigError("lexical: " + "; ".join(problems))

    def weights(self, fields: Iterable[str]) -> tuple[tuple[str, float], ...]:
        """List the views that free text is scored in, the whole document first.

        >>> LexicalConfig().weights(["title", "text"])
        (('*', 1.0), ('title', 0.3))
        """
        named = ((name, self.boosts.get(name, self.default_boost)) for name in fields)
        return ((EVERYTHING, 1.0), *((name, weight) for name, weight in named if weight > 0))
