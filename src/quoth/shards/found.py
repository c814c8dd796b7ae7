"""What was found in shards, and which of them could not be asked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quoth.collection.shards import ShardSet
from quoth.errors import ConfigError
from quoth.records import OutOfReach, Run
from quoth.search.merged import MergedSearcher
from quoth.shards.global_statistics import read_exchange

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """Hits of many queries, and the shards that they cannot be from."""

    run: Run
    unreachable: tuple[OutOfReach, ...] = ()


def out_of_reach(shards: ShardSet, sides: Iterable[MergedSearcher]) -> tuple[OutOfReach, ...]:
    """Say which shards some searchers did not reach, and how many documents were counted there."""
    reasons = {number: why for side in sides for number, why in side.unreachable.items()}
    if not reasons:
        return ()
    covers = found.covers if (found := read_exchange(shards.shard(0))) else ()
    return tuple(
        OutOfReach(number, covers[number].documents if covers else 0, why)
        for number, why in sorted(reasons.items())
    )


def refuse_reranking(rerank: bool) -> None:
    """Say that shards offer no reranking."""
    if rerank:
        raise ConfigError(
            'hits of shards cannot be reranked; leave out --rerank, or join them with "quoth merge"'
        )


def warn(unreachable: Sequence[OutOfReach]) -> None:
    """Log which shards were left out."""
    for each in unreachable:
        _logger.warning("%s", each)
