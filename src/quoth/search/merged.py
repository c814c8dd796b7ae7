"""Search many shards as one: all are asked at the same time, and their lists merged exactly.

Every shard scores with the statistics of the whole collection, so a document has the same score
wherever it lies, and the k best of all are among the k best of each. A shard that cannot be reached
is left out, and said to be: what was found is then the ranking of the documents within reach.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from quoth.errors import ShardDown
from quoth.records import Document, Hit, Part, Query, Run, SearchRequest, ShownHit
from quoth.search.coverage import HeldVectors, join_held
from quoth.search.fan_out import FanOut, ShardPort
from quoth.search.near import NearUnits
from quoth.search.shard_questions import ShardHits, ShardQuestion, worth_settling

_T = TypeVar("_T")
_AT_ONCE = {"generative": 16}  # queries that are sent together, where each takes much memory

_NOTHING = ShardHits((), ())

Prepare = Callable[[str, Sequence[Query], bool], Any]
"""Makes of queries, with syntax or plain, what a searcher makes of them before it looks into a
shard; None: nothing.
"""


class MergedSearcher:
    """One way of searching all shards, for one condition; made for one question and let go.

    Lexical scores, and those by vectors that are searched exactly, are those of the collection in
    one piece. Where a shard has a graph, or the whole would have one, other documents may be found
    (a smaller graph finds more of them). Generative search decodes within each shard: a document's
    score sums up the identifiers that were found of it, and the beam of a shard has fewer to choose
    from, so it may hold some that the beam over all identifiers has dropped.
    """

    def __init__(
        self,
        name: str,
        fan_out: FanOut,
        *,
        shard_of: Callable[[str], int],
        where: str = "",
        syntax: bool = True,
        prepare: Prepare = lambda _name, _queries, _syntax: None,
    ) -> None:
        """Search by a name; `prepare` makes of queries what every shard would make of them.

        `shard_of` names the port that a document is behind.
        """
        self.name = name
        self.unreachable: dict[int, str] = {}
        """Shards that did not answer so far, and why."""
        self.fan_out = fan_out
        self._shard_of = shard_of
        self._where = where
        self._syntax = syntax
        self._prepare = prepare

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents of all shards within reach; rows are each shard's own."""
        assert allowed is None  # the condition restricts, as it means the same in every shard
        hits: dict[str, tuple[Hit, ...]] = {}
        step = _AT_ONCE.get(self.name, max(1, len(queries)))
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            hits |= search_together([self], part, k=k)[self.name].hits
        return Run(self.name, hits)

    def question(self, queries: Sequence[Query], *, k: int) -> ShardQuestion:
        """Say what every shard is to be asked."""
        prepared = self._prepare(self.name, queries, self._syntax)
        where, syntax = self._where, self._syntax
        return ShardQuestion(
            tuple(queries), k, self.name, where=where, syntax=syntax, prepared=prepared
        )

    def merge(self, question: ShardQuestion, answers: Mapping[int, Sequence[ShardHits]]) -> Run:
        """Join what the shards answered into the k best of all; what was proposed is settled."""
        if not all(hits.are_settled for own in answers.values() for hits in own):
            answers = self._settle(question, answers)
        by_query = zip(*answers.values(), strict=True)
        return Run(
            self.name,
            {
                query.qid: merge_hits(own, k=question.k)
                for query, own in zip(question.queries, by_query, strict=True)
            },
        )

    def _settle(
        self, question: ShardQuestion, answers: Mapping[int, Sequence[ShardHits]]
    ) -> dict[int, list[ShardHits]]:
        """Have every document scored exactly that may be among the best, and no other."""
        queries, k = question.queries, question.k
        settled = {
            number: [hits if hits.are_settled else _NOTHING for hits in own]
            for number, own in answers.items()
        }
        wanted: dict[int, list[list[str]]] = {}
        deeper: dict[int, dict[int, Query]] = {}
        for at, query in enumerate(queries):
            found = {number: own[at] for number, own in answers.items()}
            worth, more = worth_settling(found, k)
            for number, docids in worth.items():
                if number in more:
                    deeper.setdefault(number, {})[at] = query
                elif not found[number].are_settled:
                    wanted.setdefault(number, [[] for _ in queries])[at] = docids
        exact = self._ask_again(lambda port: port.settle(question, wanted[port.number]), wanted)
        for number, scores in exact.items():
            for at, pair in enumerate(zip(wanted[number], scores, strict=True)):
                settled[number][at] = _scored(*pair) if pair[0] else settled[number][at]
        for number, places in deeper.items():
            asked = replace(question, queries=tuple(places.values()), exactly=True, prepared=None)
            for found_deeper in self._ask_again(_answering(asked), [number]).values():
                for at, hits in zip(places, found_deeper[0], strict=True):
                    settled[number][at] = hits
        return settled

    def _ask_again(
        self, question: Callable[[ShardPort], _T], numbers: Iterable[int]
    ) -> Mapping[int, _T]:
        """Ask shards that have just answered; those that have gone since are left out."""
        numbers = list(numbers)
        if not numbers:
            return {}
        try:
            return self._ask(question, numbers)
        except ShardDown as error:
            lost = (each for number in numbers for each in self.fan_out.ports[number].shards)
            self.unreachable.update(dict.fromkeys(lost, error.why))
            return {}

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find hits with all that is shown of them, asking every shard once.

        It saves a round of asking, and has every shard show hits of which few are kept: worth it
        where asking is costly.
        """
        wanted = replace(request, k=request.reach, offset=0)
        answers = self._ask(lambda port: port.find(wanted))
        best = heapq.nsmallest(
            request.reach,
            (each for found in answers.values() for each in found),
            key=lambda each: (-each.hit.score, each.hit.docid),
        )
        return tuple(best[request.offset :])

    def find_settled(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find the best hits by words, showing them as they are scored exactly."""
        query, k = Query("", request.query), request.reach
        question = self.question([query], k=k)
        answers = {n: own[0] for n, own in self._ask(_answering(question)).items()}
        worth, more = worth_settling({number: own[0] for number, own in answers.items()}, k)
        if more or not worth or any(answers[number][0].are_settled for number in worth):
            hits = self.merge(question, answers).hits[query.qid]
            return self.show(request, hits) if hits else ()
        found = self._ask_again(lambda port: port.show_settled(request, worth[port.number]), worth)
        shown = [each for own in found.values() for each in own]
        return tuple(sorted(shown, key=lambda each: (-each.hit.score, each.hit.docid))[:k])

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say what each score is made of; only the docids of documents are looked at."""
        own = self._by_shard([document.docid for document in documents], str)
        answers = self._ask(
            lambda port: port.explain(
                query, own[port.number], searcher=self.name, syntax=self._syntax
            ),
            own,
        )
        by_docid = {
            docid: part
            for number, parts in answers.items()
            for docid, part in zip(own[number], parts, strict=True)
        }
        nothing = Part(f"{self.name}: the shard is out of reach", 0.0)
        return tuple(by_docid.get(document.docid, nothing) for document in documents)

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits that were found, each by its own shard; those out of reach are left out."""
        own = self._by_shard(hits, lambda hit: hit.docid)
        answers = self._ask(lambda port: port.show(request, own[port.number]), own)
        by_docid = {each.hit.docid: each for found in answers.values() for each in found}
        return tuple(by_docid[hit.docid] for hit in hits if hit.docid in by_docid)

    def sign(self, hits: Sequence[Hit]) -> dict[str, bytes]:
        """Return what tells near-identical documents, by docid, of hits within reach."""
        own = self._by_shard([hit.docid for hit in hits], str)
        answers = self._ask(lambda port: port.sign(own[port.number]), own) if own else {}
        return {
            docid: signature for found in answers.values() for docid, signature in found.items()
        }

    def near(self, query: Query, docids: Sequence[str]) -> dict[str, NearUnits]:
        """Return, of documents within reach, the vector nearest to a query, and all cosines."""
        own = self._by_shard(docids, str)
        answers = self._ask(lambda port: port.near(query, own[port.number]), own) if own else {}
        return {docid: units for found in answers.values() for docid, units in found.items()}

    def _by_shard(self, things: Iterable[_T], docid_of: Callable[[_T], str]) -> dict[int, list[_T]]:
        own: dict[int, list[_T]] = {}
        for each in things:
            own.setdefault(self._shard_of(docid_of(each)), []).append(each)
        return own

    def close(self) -> None:
        """Nothing is open here."""

    def _ask(
        self, question: Callable[[ShardPort], _T], numbers: Iterable[int] | None = None
    ) -> Mapping[int, _T]:
        asked = self.fan_out.ask(question, numbers)
        self.unreachable.update(asked.unreachable)
        return asked.answers


def search_together(
    sides: Sequence[MergedSearcher], queries: Sequence[Query], *, k: int
) -> dict[str, Run]:
    """Search by several searchers of the same shards, asking each shard once."""
    questions = [side.question(queries, k=k) for side in sides]
    asked = sides[0].fan_out.ask(lambda port: port.answer(questions))
    found = {}
    for at, (side, question) in enumerate(zip(sides, questions, strict=True)):
        side.unreachable.update(asked.unreachable)
        found[side.name] = side.merge(question, {n: own[at] for n, own in asked.answers.items()})
    return found


class UnfinishedMergedSearcher(MergedSearcher):
    """A merged searcher by vectors, of which some are missing as an encoding is under way."""

    is_partial = True

    @property
    def held_share(self) -> float:
        """The share of all documents within reach that have a vector."""
        return self._held.held / max(1, self._held.documents)

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents have no vector yet."""
        own = self._by_shard(docids, str)
        answers = self._ask(lambda port: port.lacking(own[port.number]), own) if own else {}
        return frozenset(docid for found in answers.values() for docid in found)

    def coverage(self) -> str:
        """Say how much is searched by vectors."""
        return str(self._held.coverage)

    @functools.cached_property
    def _held(self) -> HeldVectors:
        return join_held(list(self._ask(lambda port: port.held()).values()))


def merge_hits(found: Iterable[ShardHits], *, k: int) -> tuple[Hit, ...]:
    """Join the lists of shards into the k best of all: by score, then by docid.

    >>> first, second = ShardHits(("a", "c"), (3.0, 1.0)), ShardHits(("b",), (1.0,))
    >>> [hit.docid for hit in merge_hits([first, second], k=2)]
    ['a', 'b']
    """
    scored = (pair for own in found for pair in zip(own.docids, own.scores, strict=True))
    best = heapq.nsmallest(k, scored, key=lambda pair: (-pair[1], pair[0]))
    return tuple(Hit(docid, score) for docid, score in best)


def _answering(
    asked: ShardQuestion,
) -> Callable[[ShardPort], tuple[tuple[ShardHits, ...], ...]]:
    return lambda port: port.answer([asked])


def _scored(docids: Sequence[str], scores: Sequence[float | None]) -> ShardHits:
    """Put exact scores beside docids; what is gone is left out."""
    there = [pair for pair in zip(docids, scores, strict=True) if pair[1] is not None]
    return ShardHits(tuple(docid for docid, _ in there), tuple(score or 0.0 for _, score in there))
