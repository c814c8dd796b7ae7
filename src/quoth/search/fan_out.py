"""Ask many shards, in this process or elsewhere, and note who did not answer."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from quoth.errors import ShardDown
from quoth.records import Document, Hit, Part, Query, SearchRequest, ShownHit
from quoth.search.coverage import HeldVectors
from quoth.search.near import NearUnits
from quoth.search.shard_questions import ShardHits, ShardQuestion

_T = TypeVar("_T")

_WORTH_A_THREAD = 0.005
"""Seconds of one shard from which on asking the others at the same time pays."""

_FORGETTING = 0.9  # of the slowest answer, with every other; a search has two or three


class ShardPort(Protocol):
    """One shard, in this process or elsewhere; every method may raise `ShardDown`."""

    number: int
    shards: tuple[int, ...]
    """Numbers of the shards behind it: its own, or several (group.py)."""

    is_costly: bool
    """Whether asking once more costs more than showing hits in vain."""

    is_here: bool
    """Whether it answers by the thread that asks, not somewhere else meanwhile."""

    def answer(self, questions: Sequence[ShardQuestion]) -> tuple[tuple[ShardHits, ...], ...]:
        """Find the best documents of the shard by several searchers, for each query of each."""
        ...

    def settle(
        self, question: ShardQuestion, docids: Sequence[Sequence[str]]
    ) -> tuple[tuple[float | None, ...], ...]:
        """Score documents that were proposed for each query exactly; None where one is gone."""
        ...

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find the best documents of the shard with all that is shown of them, in one answer."""
        ...

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits of the shard that were found for a request; what is gone is left out."""
        ...

    def show_settled(self, request: SearchRequest, docids: Sequence[str]) -> tuple[ShownHit, ...]:
        """Score documents that were proposed for a request exactly, and show them."""
        ...

    def sign(self, docids: Sequence[str]) -> dict[str, bytes]:
        """Return what tells near-identical documents; those that are not there are left out."""
        ...

    def near(self, query: Query, docids: Sequence[str]) -> dict[str, NearUnits]:
        """Return, of documents that have vectors, the one nearest to a query, and all cosines."""
        ...

    def explain(
        self, query: Query, docids: Sequence[str], *, searcher: str, syntax: bool = True
    ) -> tuple[Part, ...]:
        """Say what the score of each of these documents of the shard is made of."""
        ...

    def fetch(self, docids: Sequence[str]) -> tuple[Document, ...]:
        """Fetch documents of the shard; those that are not there are left out."""
        ...

    def held(self) -> HeldVectors:
        """Count the vectors of a shard that is being encoded, and those it will have."""
        ...

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents of the shard have no vector yet."""
        ...

    def status(self) -> dict[str, Any]:
        """Describe the shard as `quoth status` does."""
        ...


@dataclass(frozen=True, slots=True)
class FromGroup(Generic[_T]):
    """What the port of several shards answers, and which of them did not, with the reason."""

    value: _T
    unreachable: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class ShardAnswers(Generic[_T]):
    """What ports answered, by number, and the shards that could not be reached, with the reason."""

    answers: Mapping[int, _T]
    unreachable: Mapping[int, str]


class FanOut:
    """Asks all shards: at the same time, or in turn where they answer faster than threads take.

    Threads of one process wait for each other whenever they are not inside of an index, which costs
    shards of up to some hundred thousand documents more than it saves. Shards elsewhere are always
    asked at the same time.
    """

    def __init__(self, ports: Sequence[ShardPort]) -> None:
        self.ports = {port.number: port for port in ports}
        self._are_here = all(port.is_here for port in ports)
        self._slowest = 0.0  # seconds that a shard took of late
        self._places = {shard: port.number for port in ports for shard in port.shards}
        self._pool = ThreadPoolExecutor(
            max_workers=max(1, len(ports)), thread_name_prefix="quoth-shard"
        )

    def place(self, shard: int) -> int:
        """Return the number of the port that a shard is behind."""
        return self._places[shard]

    def ask(
        self, question: Callable[[ShardPort], _T], numbers: Iterable[int] | None = None
    ) -> ShardAnswers[_T]:
        """Put a question to some ports, None for all; raises where none of them answers."""
        asked = sorted(self.ports if numbers is None else set(numbers))
        in_turn = self._are_here and self._slowest < _WORTH_A_THREAD
        waiting: dict[int, Callable[[], _T]] = {
            # Each in the caller's context, so that who stops the caller stops the shards too.
            each: self._pool.submit(copy_context().run, question, self.ports[each]).result
            for each in ([] if in_turn else asked[1:])
        }
        ask_here = functools.partial(self._ask_here, question, in_turn=in_turn)
        answers: dict[int, _T] = {}
        unreachable: dict[int, str] = {}
        for number in asked:
            try:
                found = waiting[number]() if number in waiting else ask_here(self.ports[number])
            except ShardDown as error:
                unreachable |= dict.fromkeys(self.ports[number].shards, error.why)
                continue
            if isinstance(found, FromGroup):
                unreachable |= found.unreachable
                found = found.value
            answers[number] = found
        if asked and not answers:
            first, why = next(iter(unreachable.items()))
            raise ShardDown(first, f"none of {len(unreachable)} shards can be reached ({why})")
        return ShardAnswers(answers, unreachable)

    def _ask_here(
        self, question: Callable[[ShardPort], _T], port: ShardPort, *, in_turn: bool
    ) -> _T:
        """Ask a port by this thread, and note how long it took, without waiting for others."""
        clock = time.perf_counter if in_turn else time.thread_time
        begun = clock()
        found = question(port)
        seconds = (clock() - begun) / len(port.shards)
        self._slowest = max(seconds, _FORGETTING * self._slowest)
        return found

    def close(self) -> None:
        """Wait for what is under way, and stop the threads; the ports stay as they are."""
        self._pool.shutdown()
