"""Settings of reranking by the query generator; apart from it, so that `--help` needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, CheckedConfig, Share, not_empty


@dataclass(frozen=True, slots=True)
class RerankConfig(CheckedConfig, title="rerank"):
    """How the best hits of a search are put into a new order."""

    weight: Share = 0.3
    """Share of log p(query | passage) in the new score; the first search keeps the rest."""

    depth: AtLeastOne = 50
    """Best hits that are reranked; those below keep their order after them."""

    generator: Annotated[str, not_empty("query-generator, a folder or a hub name")] = (
        "query-generator"
    )
    """The query generator: the shipped one, a folder, or a BART or T5 by hub name."""
