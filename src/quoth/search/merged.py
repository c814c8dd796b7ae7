"""Search many shards as one: all are asked at the same time, and their lists merged exactly.

Every shard scores with the statistics of the whole collection, so a document has the same score
wherever it lies, and the k best of all are among the k best of each. A shard that cannot be reached
is left out, and said to be: what was found is then the ranking of the documents within reach.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from quoth.errors import ShardDown
from quoth.records import Document, Hit, Part, Query, Run, SearchRequest, ShownHit

_T = TypeVar("_T")


class ShardPort(Protocol):
    """One shard, in this process or elsewhere; every method may raise `ShardDown`."""

    number: int

    def run(
        self, queries: Sequence[Query], *, k: int, where: str, searcher: str, syntax: bool
    ) -> Run:
        """Find the k best documents of the shard: lexical, dense or generative, never fused."""
        ...

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find the best documents of the shard with all that is shown of them, in one answer."""
        ...

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits of the shard that were found for a request; what is gone is left out."""
        ...

    def explain(
        self, query: Query, docids: Sequence[str], *, searcher: str, syntax: bool = True
    ) -> tuple[Part, ...]:
        """Say what the score of each of these documents of the shard is made of."""
        ...

    def fetch(self, docids: Sequence[str]) -> tuple[Document, ...]:
        """Fetch documents of the shard; those that are not there are left out."""
        ...

    def status(self) -> dict[str, Any]:
        """Describe the shard as `quoth status` does."""
        ...


@dataclass(frozen=True, slots=True)
class ShardAnswers(Generic[_T]):
    """What the shards answered, by number, and those that could not be reached, with the reason."""

    answers: Mapping[int, _T]
    unreachable: Mapping[int, str]


class FanOut:
    """Asks all shards at the same time."""

    def __init__(self, ports: Sequence[ShardPort]) -> None:
        self.ports = {port.number: port for port in ports}
        self._pool = ThreadPoolExecutor(
            max_workers=max(1, len(ports)), thread_name_prefix="quoth-shard"
        )

    def ask(
        self, question: Callable[[ShardPort], _T], numbers: Iterable[int] | None = None
    ) -> ShardAnswers[_T]:
        """Put a question to some shards, None for all; raises where none of them answers."""
        asked = sorted(self.ports if numbers is None else set(numbers))
        waiting = {
            # Each in the caller's context, so that who stops the caller stops the shards too.
            each: self._pool.submit(copy_context().run, question, self.ports[each])
            for each in asked
        }
        answers, unreachable = {}, {}
        for number, future in waiting.items():
            try:
                answers[number] = future.result()
            except ShardDown as error:
                unreachable[number] = error.why
        if asked and not answers:
            why = f"none of {len(asked)} shards can be reached ({unreachable[asked[0]]})"
            raise ShardDown(asked[0], why)
        return ShardAnswers(answers, unreachable)

    def close(self) -> None:
        """Wait for what is under way, and stop the threads; the ports stay as they are."""
        self._pool.shutdown()


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
    ) -> None:
        self.name = name
        self.unreachable: dict[int, str] = {}
        """Shards that did not answer so far, and why."""
        self._fan_out = fan_out
        self._shard_of = shard_of
        self._where = where
        self._syntax = syntax

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents of all shards within reach; rows are each shard's own."""
        assert allowed is None  # the condition restricts, as it means the same in every shard
        found = self._ask(
            lambda port: port.run(
                queries, k=k, where=self._where, searcher=self.name, syntax=self._syntax
            )
        )
        return merge_runs(list(found.values()), name=self.name, k=k)

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find hits with all that is shown of them, asking every shard once.

        It saves a round of asking, and has every shard show hits of which few are kept: worth it
        where shards work beside each other.
        """
        wanted = replace(request, k=request.reach, offset=0)
        answers = self._ask(lambda port: port.find(wanted))
        best = heapq.nsmallest(
            request.reach,
            (each for found in answers.values() for each in found),
            key=lambda each: (-each.hit.score, each.hit.docid),
        )
        return tuple(best[request.offset :])

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
        asked = self._fan_out.ask(question, numbers)
        self.unreachable.update(asked.unreachable)
        return asked.answers


def merge_runs(runs: Sequence[Run], *, name: str, k: int) -> Run:
    """Join the lists of shards into the k best of all: by score, then by docid.

    >>> from quoth.records import Hit
    >>> first = Run("lexical", {"q": (Hit("a", 3.0), Hit("c", 1.0))})
    >>> second = Run("lexical", {"q": (Hit("b", 1.0),)})
    >>> [hit.docid for hit in merge_runs([first, second], name="lexical", k=2).hits["q"]]
    ['a', 'b']
    """
    qids = dict.fromkeys(qid for run in runs for qid in run.hits)
    return Run(
        name,
        {
            qid: tuple(
                heapq.nsmallest(
                    k,
                    (hit for run in runs for hit in run.hits.get(qid, ())),
                    key=lambda hit: (-hit.score, hit.docid),
                )
            )
            for qid in qids
        },
    )
