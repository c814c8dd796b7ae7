"""Find hits over all shards, and let each shard show its own.

The best of all are found first, and only their shards asked for what is shown of them; where asking
is costly, every shard finds and shows in one answer. A page that has near-identical documents is
filled from a longer stretch of the ranking, of which shards first say what tells them apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from quoth.engine.finding import STEADY, KeptRanking, Ranking, number_distinct
from quoth.records import Attention, Document, Hit, SearchRequest, ShownHit
from quoth.search.duplicates import choose_distinct
from quoth.search.merged import MergedSearcher
from quoth.search.searcher import Timed

_MARGIN = 4
"""How many times as many hits as are wanted a page that has copies is filled from."""

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
    asks_once: bool
    """Whether every shard is to find and show in one answer, where it can."""

    def find(self) -> tuple[ShownHit, ...]:
        """Find hits `offset` + 1 to `offset` + k, with all that is shown of them."""
        request, using = self.ranking.request, self.ranking.using
        if isinstance(using, MergedSearcher) and self.asks_once:
            hits: Sequence[ShownHit] = using.find(request)
        elif self.is_by_words:
            hits = self.find_settled(replace(request, k=request.reach, offset=0))
            hits = self._explain(self.ranking, hits[request.offset :])
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
        request, using = self.ranking.request, self.ranking.using
        asked = replace(request, offset=0, distinct=True, explain=False, attention=False)
        looked_at = (
            _AtOnce(using, asked)
            if isinstance(using, MergedSearcher) and self.asks_once
            else _InSteps(self, asked)
        )
        page = choose_distinct(
            request, looked_at.best, signatures=looked_at.signatures, least=least
        )
        shown = looked_at.show([each.best for each in page.groups])
        page = replace(page, groups=[each for each in page.groups if each.best.docid in shown])
        hits = [
            replace(known, rank=each.rank, hit=replace(known.hit, score=each.best.score))
            for each in page.groups
            if (known := shown[each.best.docid])
        ]
        looked = replace(self.ranking, request=replace(request, offset=0, k=page.k))
        told = looked.with_finders(self._explain(looked, hits))
        return number_distinct(told, page, after=request.offset)

    @property
    def is_by_words(self) -> bool:
        """Whether words alone are searched for, of which shards propose documents."""
        return self.ranking.using is self.lexical

    def find_settled(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find the best hits by words, with all that is shown of them."""
        with self._searching:
            return self.lexical.find_settled(request)

    def rank(self, kept: KeptRanking, k: int) -> Sequence[Hit]:
        """Find the k best hits."""
        with self._searching:
            return kept.best(k)

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


class _InSteps:
    """Hits that are found first; the first are shown with their signatures, others just signed."""

    def __init__(self, finder: ShardFinder, asked: SearchRequest) -> None:
        self._finder = finder
        self._asked = asked
        self._kept = KeptRanking(finder.ranking, margin=_MARGIN)
        self._shown: dict[str, ShownHit] = {}
        self._signed: dict[str, bytes] = {}
        self._is_first = True

    def best(self, k: int) -> Sequence[Hit]:
        """Return the k best hits, as far as their shards can be reached."""
        if self._is_first:
            self._show_first(k)
        found = self._finder.rank(self._kept, k)
        if any(hit.docid not in self._signed for hit in found):
            near = self._kept.known(_MARGIN * k)  # so that the next round needs no asking
            unsigned = [hit for hit in near if hit.docid not in self._signed]
            self._signed |= self._finder.lexical.sign(unsigned)
        return [hit for hit in found if hit.docid in self._signed]

    def _show_first(self, k: int) -> None:
        """Show the k best hits; by words, they are scored and shown in one step."""
        self._is_first = False
        if self._finder.is_by_words:
            found = self._finder.find_settled(replace(self._asked, k=k))
            self._kept.know(k, [Hit(each.hit.docid, each.hit.score) for each in found])
            self._note(found)
        else:
            self.show(self._finder.rank(self._kept, k))

    def signatures(self, hits: Sequence[Hit]) -> list[bytes]:
        """Return what tells near-identical documents."""
        return [self._signed[hit.docid] for hit in hits]

    def show(self, hits: Sequence[Hit]) -> dict[str, ShownHit]:
        """Return what is shown of hits, by docid; of those that were not shown so far, it asks."""
        unknown = [hit for hit in hits if hit.docid not in self._shown]
        if unknown:
            with self._finder.timed("show"):
                found = self._finder.lexical.show(self._asked, unknown)
            self._note(found)
        return self._shown

    def _note(self, found: Sequence[ShownHit]) -> None:
        self._shown |= _by_docid(found)
        self._signed |= {each.hit.docid: each.signature for each in found}


class _AtOnce:
    """Hits that every shard finds and shows in one answer."""

    def __init__(self, using: MergedSearcher, asked: SearchRequest) -> None:
        self._using = using
        self._asked = asked
        self._found: Sequence[ShownHit] = ()
        self._shown: dict[str, ShownHit] = {}
        self._ranked = 0

    def best(self, k: int) -> Sequence[Hit]:
        """Return the k best hits; the second time, more are asked for than are wanted."""
        if k > self._ranked:
            is_steady = self._ranked and self._using.name in STEADY
            self._ranked = _MARGIN * k if is_steady else k
            self._found = self._using.find(replace(self._asked, k=self._ranked))
            self._shown |= _by_docid(self._found)
        return [each.hit for each in self._found[:k]]

    def signatures(self, hits: Sequence[Hit]) -> list[bytes]:
        """Return what tells near-identical documents."""
        return [self._shown[hit.docid].signature for hit in hits]

    def show(self, _hits: Sequence[Hit]) -> dict[str, ShownHit]:
        """Return what is shown, by docid."""
        return self._shown


def _by_docid(shown: Sequence[ShownHit]) -> dict[str, ShownHit]:
    return {each.hit.docid: each for each in shown}
