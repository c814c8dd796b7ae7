"""What was found in shards, and which of them could not be asked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quoth.collection.shards import ShardSet
from quoth.records import Hit, OutOfReach, Query, Run, SearchRequest, ShownHit
from quoth.search.merged import MergedSearcher
from quoth.search.rerank import ReadHits, ReadPassage, read_passage
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


def read_shown(side: MergedSearcher, *, searcher: str, syntax: bool) -> ReadHits:
    """Return what reads hits for reranking, each as its own shard would show it."""

    def read(query: Query, hits: Sequence[Hit]) -> list[ReadPassage]:
        request = SearchRequest(query.text, searcher=searcher, syntax=syntax, snippet_chars=0)
        shown = {each.hit.docid: each for each in side.show(request, hits)}
        gone = ShownHit(0, Hit("", 0.0))  # its shard went out of reach since it was found
        found = (shown.get(hit.docid, gone) for hit in hits)
        return [read_passage(each.title, each.hit.passage) for each in found]

    return read


def warn(unreachable: Sequence[OutOfReach]) -> None:
    """Log which shards were left out."""
    for each in unreachable:
        _logger.warning("%s", each)
