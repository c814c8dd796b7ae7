"""Settings of reranking by the query generator; apart from it, so that `--help` needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RerankConfig:
    """How the best hits of a search are put into a new order."""

    weight: float = 0.3
    """Share of log p(query | passage) in the new score; the first search keeps the rest."""

    depth: int = 50
    """Best hits that are reranked; those below keep their order after them."""

    generator: str = "query-generator"
    """The query generator: the shipped one, a folder, or a BART or T5 by hub name."""

    def __post_init__(self) -> None:
        problems = []
        if not 0.0 <= self.weight <= 1.0:
            problems.append(f"weight is {self.weight}, expected 0 to 1")
        if self.depth < 1:
            problems.append(f"depth is {self.depth}, expected at least 1")
        if not self.generator:
            problems.append("generator is empty, expected query-generator, a folder or a hub name")
        if problems:
            raise ConfigError("rerank: " + "; ".join(problems))
