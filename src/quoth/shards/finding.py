"""Find hits over all shards, and let each shard show its own.

Where shards work beside each other, each finds and shows in one answer; otherwise the best of all
are found first, and only their shards asked for what is shown of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from quoth.engine.finding import KeptRanking, Ranking, number_distinct
from quoth.records import Attention, Document, Hit, SearchRequest, ShownHit
from quoth.search.duplicates import BestHits, choose_distinct
from quoth.search.merged import MergedSearcher
from quoth.search.searcher import Timed

LookAt = Callable[[Sequence[str]], Sequence[Attention | None]]
"""Says where the encoder looked, for documents by their docids."""


@dataclass(frozen=True, slots=True)
class ShardFinder:
    """Finds and shows the hits of one request."""

    ranking: Ranking
    lexical: MergedSearcher
    """Asks the shards for what is shown."""
    attention: LookAt
    timed: Timed
    is_apart: bool
    """Whether shards work beside each other."""

    def find(self) -> tuple[ShownHit, ...]:
        """Find hits `offset` + 1 to `offset` + k, with all that is shown of them."""
        request, using = self.ranking.request, self.ranking.using
        if isinstance(using, MergedSearcher) and self.is_apart:
            hits: Sequence[ShownHit] = using.find(request)
        else:
            with self._searching:
                found = self.ranking.find()
            with self.timed("show"):
                hits = self.lexical.show(request, found[request.offset :])
            hits = self._explain(self.ranking, hits)
        ranks = itertools.count(request.offset + 1)
        return tuple(self.ranking.with_finders([replace(each, rank=next(ranks)) for each in hits]))

    def find_distinct(self, *, least: float) -> tuple[ShownHit, ...]:
        """Find hits, those that are at least so similar together."""
        request = self.ranking.request
        asked = replace(request, offset=0, distinct=True, explain=False, attention=False)
        shown: dict[str, ShownHit] = {}
        using = self.ranking.using
        page = choose_distinct(
            request,
            _at_once(using, asked, shown)
            if isinstance(using, MergedSearcher) and self.is_apart
            else self._in_steps(asked, shown),
            signatures=lambda hits: [shown[hit.docid].signature for hit in hits],
            least=least,
        )
        hits = [
            replace(known, rank=each.rank, hit=replace(known.hit, score=each.best.score))
            for each in page.groups
            if (known := shown[each.best.docid])
        ]
        looked = replace(self.ranking, request=replace(request, offset=0, k=page.k))
        told = looked.with_finders(self._explain(looked, hits))
        return number_distinct(told, page, after=request.offset)

    def _in_steps(self, asked: SearchRequest, shown: dict[str, ShownHit]) -> BestHits:
        """Return what finds the k best hits and then has those shown that were not so far."""
        kept = KeptRanking(self.ranking)

        def best(k: int) -> Sequence[Hit]:
            with self._searching:
                found = kept.best(k)
            with self.timed("show"):
                unknown = [hit for hit in found if hit.docid not in shown]
                shown.update(_by_docid(self.lexical.show(asked, unknown) if unknown else ()))
            return [hit for hit in found if hit.docid in shown]

        return best

    @property
    def _searching(self) -> AbstractContextManager[None]:
        return self.timed(f"search {self.ranking.request.searcher}")

    def _explain(self, ranking: Ranking, shown: Sequence[ShownHit]) -> Sequence[ShownHit]:
        """Add to hits what they are made of and where the encoder looked, as was asked for."""
        request, docids = ranking.request, [each.hit.docid for each in shown]
        if request.explain and shown:
            with self.timed("explain"):
                shown = ranking.with_explanations(shown, [Document(each, {}) for each in docids])
        if request.attention and shown:
            pairs = zip(shown, self.attention(docids), strict=True)
            shown = [replace(each, attention=look) for each, look in pairs]
        return shown


def _at_once(using: MergedSearcher, asked: SearchRequest, shown: dict[str, ShownHit]) -> BestHits:
    """Return what has every shard find and show its k best hits in one answer."""

    def best(k: int) -> Sequence[Hit]:
        found = using.find(replace(asked, k=k))
        shown.update(_by_docid(found))
        return [each.hit for each in found]

    return best


def _by_docid(shown: Sequence[ShownHit]) -> dict[str, ShownHit]:
    return {each.hit.docid: each for each in shown}
