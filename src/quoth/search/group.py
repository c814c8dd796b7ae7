"""Several shards behind one port: an inner router, so that many shards are asked as a tree.

Asked flat, a router sends every question to each of S shards and merges S lists. Through inner
routers it asks about √S groups, each of which asks its own shards and merges their lists exactly:
the k best of all are among the k best of each group, so the result is the same to the bit. What is
proposed by words is scored exactly within the group, a little more than would be worth it over all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from quoth.records import Document, Hit, Part, Query, SearchRequest, ShownHit
from quoth.search.coverage import HeldVectors, join_held
from quoth.search.fan_out import FanOut, FromGroup, ShardPort
from quoth.search.merged import MergedSearcher
from quoth.search.near import NearUnits
from quoth.search.shard_questions import ShardHits, ShardQuestion, as_columns

_T = TypeVar("_T")

GROUP = "group"
"""The key under which the status of a group has those of its shards."""


def arrange_groups(count: int) -> list[tuple[int, ...]]:
    """Put shards into groups, as many as each has members, neighbours together.

    >>> arrange_groups(10)
    [(0, 1, 2), (3, 4, 5), (6, 7), (8, 9)]
    """
    groups = math.ceil(math.sqrt(count))
    size, larger = divmod(count, groups)
    ends = [size * at + min(at, larger) for at in range(groups + 1)]
    return [tuple(range(*pair)) for pair in itertools.pairwise(ends)]


class GroupPort:
    """A group of shards, as `ShardPort` wants one; it says which of them it could not reach."""

    is_costly = False

    def __init__(
        self, number: int, ports: Sequence[ShardPort], *, shard_of: Callable[[str], int]
    ) -> None:
        """Stand for ports of shards; `shard_of` says to which shard of all a docid belongs."""
        self.number = number
        self.shards = tuple(each for port in ports for each in port.shards)
        self.is_here = all(port.is_here for port in ports)
        self._fan_out = FanOut(ports)
        self._shard_of = shard_of

    def answer(
        self, questions: Sequence[ShardQuestion]
    ) -> FromGroup[tuple[tuple[ShardHits, ...], ...]]:
        """Find the best documents of the group by several searchers, with their exact scores."""
        asked = self._fan_out.ask(lambda port: port.answer(questions))
        missed, found = dict(asked.unreachable), []
        for at, question in enumerate(questions):
            side = self._side(question.searcher, where=question.where, syntax=question.syntax)
            run = side.merge(question, {n: own[at] for n, own in asked.answers.items()})
            found.append(tuple(as_columns(run.hits[query.qid]) for query in question.queries))
            missed |= side.unreachable
        return FromGroup(tuple(found), missed)

    def settle(
        self, question: ShardQuestion, docids: Sequence[Sequence[str]]
    ) -> FromGroup[tuple[tuple[float | None, ...], ...]]:
        """Score documents for each query exactly; None where one is gone or out of reach."""
        wanted = {
            number: [[docid for docid in own if self._place(docid) == number] for own in docids]
            for number in {self._place(docid) for own in docids for docid in own}
        }
        asked = self._fan_out.ask(lambda port: port.settle(question, wanted[port.number]), wanted)
        scores: list[dict[str, float | None]] = [{} for _ in docids]
        for number, found in asked.answers.items():
            for known, own, exact in zip(scores, wanted[number], found, strict=True):
                known |= dict(zip(own, exact, strict=True))
        value = tuple(
            tuple(known.get(docid) for docid in own)
            for known, own in zip(scores, docids, strict=True)
        )
        return FromGroup(value, asked.unreachable)

    def find(self, request: SearchRequest) -> FromGroup[tuple[ShownHit, ...]]:
        """Find the best documents of the group, with all that is shown of them."""
        return self._by(request, lambda side: side.find(request))

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> FromGroup[tuple[ShownHit, ...]]:
        """Show hits of the group that were found for a request."""
        return self._by(request, lambda side: side.show(request, hits))

    def show_settled(
        self, request: SearchRequest, docids: Sequence[str]
    ) -> FromGroup[tuple[ShownHit, ...]]:
        """Score documents that were proposed for a request exactly, and show them."""
        found = self._of(docids, lambda port, own: port.show_settled(request, own))
        return FromGroup(_joined(found.value), found.unreachable)

    def sign(self, docids: Sequence[str]) -> FromGroup[dict[str, bytes]]:
        """Return what tells near-identical documents; those that are not there are left out."""
        found = self._of(docids, lambda port, own: port.sign(own))
        value = {docid: sign for own in found.value for docid, sign in own.items()}
        return FromGroup(value, found.unreachable)

    def near(self, query: Query, docids: Sequence[str]) -> FromGroup[dict[str, NearUnits]]:
        """Return, of documents that have vectors, the one nearest to a query, and all cosines."""
        found = self._of(docids, lambda port, own: port.near(query, own))
        value = {docid: units for own in found.value for docid, units in own.items()}
        return FromGroup(value, found.unreachable)

    def explain(
        self, query: Query, docids: Sequence[str], *, searcher: str, syntax: bool = True
    ) -> FromGroup[tuple[Part, ...]]:
        """Say what the score of each of these documents is made of."""
        side = self._side(searcher, where="", syntax=syntax)
        parts = side.explain(query, [Document(docid, {}) for docid in docids])
        return FromGroup(parts, side.unreachable)

    def fetch(self, docids: Sequence[str]) -> FromGroup[tuple[Document, ...]]:
        """Fetch documents of the group; those that are not there are left out."""
        found = self._of(docids, lambda port, own: port.fetch(own))
        by_docid = {each.docid: each for each in _joined(found.value)}
        value = tuple(by_docid[docid] for docid in docids if docid in by_docid)
        return FromGroup(value, found.unreachable)

    def held(self) -> FromGroup[HeldVectors]:
        """Count the vectors of the group, and those it will have."""
        asked = self._fan_out.ask(lambda port: port.held())
        return FromGroup(join_held(list(asked.answers.values())), asked.unreachable)

    def lacking(self, docids: Sequence[str]) -> FromGroup[frozenset[str]]:
        """Say which of these documents have no vector yet."""
        found = self._of(docids, lambda port, own: port.lacking(own))
        return FromGroup(frozenset(_joined(found.value)), found.unreachable)

    def status(self) -> FromGroup[dict[str, Any]]:
        """Describe each shard of the group."""
        asked = self._fan_out.ask(lambda port: port.status())
        return FromGroup({GROUP: dict(asked.answers)}, asked.unreachable)

    def close(self) -> None:
        """Stop the threads; the ports stay as they are."""
        self._fan_out.close()

    def _place(self, docid: str) -> int:
        """Return the number of the port that a document is behind."""
        return self._fan_out.place(self._shard_of(docid))

    def _side(self, searcher: str, *, where: str, syntax: bool) -> MergedSearcher:
        return MergedSearcher(
            searcher, self._fan_out, shard_of=self._place, where=where, syntax=syntax
        )

    def _by(self, request: SearchRequest, ask: Callable[[MergedSearcher], _T]) -> FromGroup[_T]:
        side = self._side(request.searcher, where=request.where, syntax=request.syntax)
        return FromGroup(ask(side), side.unreachable)

    def _of(
        self, docids: Sequence[str], ask: Callable[[ShardPort, list[str]], _T]
    ) -> FromGroup[list[_T]]:
        """Ask the shards of some documents, each for its own."""
        own: dict[int, list[str]] = {}
        for docid in docids:
            own.setdefault(self._place(docid), []).append(docid)
        asked = self._fan_out.ask(lambda port: ask(port, own[port.number]), own)
        return FromGroup(list(asked.answers.values()), asked.unreachable)


def statuses_by_shard(found: Mapping[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the status of each shard, those of groups taken apart.

    >>> statuses_by_shard({0: {"group": {0: {"documents": 1}, 1: {"documents": 2}}}})
    {0: {'documents': 1}, 1: {'documents': 2}}
    """
    flat: dict[int, dict[str, Any]] = {}
    for number, own in found.items():
        flat |= own.get(GROUP, {number: own})
    return flat


def _joined(found: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    return tuple(each for own in found for each in own)
