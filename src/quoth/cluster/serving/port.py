"""A shard behind Ray Serve: what is asked goes to one of its replicas, and once more to another.

A replica whose machine is lost leaves what was under way there unanswered; searching changes
nothing, so it is asked again. Where no replica answers, the shard counts as out of reach, and every
question is refused at once, without waiting, until one answers a ping.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from quoth import errors
from quoth.cluster.connecting import load_serve
from quoth.cluster.serving.direct import DirectLine, Late, Lost
from quoth.cluster.serving.hedging import LineCounts
from quoth.cluster.serving.replica import FAILED, Reply
from quoth.errors import ClusterError, QuothError, ShardDown
from quoth.records import Document, Hit, Part, Query, SearchRequest, ShownHit
from quoth.search.coverage import HeldVectors
from quoth.search.shard_questions import ShardHits, ShardQuestion

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

_ATTEMPTS = 2
_PAUSE_SECONDS = 0.5
_OUT_OF_REACH = (
    errors.Busy,
    errors.Damaged,
    errors.FormatMismatch,
    errors.IndexMoved,
    errors.NoCollection,
    errors.OutOfDate,
    errors.ShardDown,
    errors.OutOfFiles,
    errors.StorageFailed,
    errors.StorageFull,
)
"""What a replica says of its shard, rather than of the question."""

_logger = logging.getLogger(__name__)


class ShardLine:
    """The connection to the replicas of one shard; any number of threads may share it."""

    def __init__(
        self,
        number: int,
        handle: DeploymentHandle[Any],
        *,
        wait_seconds: float,
        direct: DirectLine | None = None,
    ) -> None:
        """Ask through a handle of Ray Serve, or past it where there is a direct line."""
        from ray.exceptions import RayTaskError

        self._failed = RayTaskError
        self._losses = losses()
        self.number = number
        self._ask_replica, self._ping_replica = handle.ask, handle.ping
        self._wait_seconds = wait_seconds
        self._direct = direct
        self._lock = threading.Lock()
        self._why = ""
        self._is_closed = threading.Event()

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the port that a replica holds."""
        if self.is_down:
            raise ShardDown(self.number, self._why)
        for _attempt in range(_ATTEMPTS):
            try:
                reply = self._ask_directly(method, arguments, options)
                if reply is None:
                    reply = self._ask_one(method, arguments, options)
            except ShardDown as error:
                why = error.why
            else:
                return self._value_of(reply)
        self._go_down(why)
        raise ShardDown(self.number, why)

    @property
    def is_costly(self) -> bool:
        """Whether every question goes through Ray."""
        return self._direct is None

    @property
    def counts(self) -> LineCounts | None:
        """What was asked past Ray so far; None where all goes through it."""
        return None if self._direct is None else self._direct.hedging.counts

    @property
    def is_down(self) -> bool:
        """Whether questions are refused until a replica answers."""
        return bool(self._why)

    def close(self) -> None:
        """Stop looking whether the shard is back."""
        self._is_closed.set()
        if self._direct is not None:
            self._direct.close()

    def _ask_directly(
        self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Reply | None:
        """Ask past Ray; None where that is not possible now."""
        if self._direct is None:
            return None
        message = pickle.dumps((method, arguments, options), protocol=pickle.HIGHEST_PROTOCOL)
        try:
            reply: Reply = self._direct.ask(message, wait_seconds=self._wait_seconds)
        except Lost:
            return None
        except Late as error:
            raise ShardDown(self.number, self._late) from error
        if reply.kind == FAILED:
            raise ClusterError(f"shard {self.number} failed at {method}: {reply.message}")
        return reply

    @property
    def _late(self) -> str:
        return f"no replica answered within {self._wait_seconds:g} seconds"

    def _ask_one(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        response = self._ask_replica.remote(method, arguments, options)
        try:
            reply: Reply = response.result(timeout_s=self._wait_seconds)
            return reply
        except TimeoutError as error:
            response.cancel()  # type: ignore[no-untyped-call]
            raise ShardDown(self.number, self._late) from error
        except self._failed as error:
            last = str(error).strip().splitlines()[-1]
            raise ClusterError(f"shard {self.number} failed at {method}: {last}") from error
        except self._losses as error:
            raise ShardDown(self.number, _reason(error)) from error

    def _value_of(self, reply: Reply) -> Any:
        if not reply.kind:
            return reply.value
        kind = getattr(errors, reply.kind)
        if issubclass(kind, _OUT_OF_REACH):
            raise ShardDown(self.number, reply.message)
        assert issubclass(kind, QuothError)
        raise kind(reply.message)

    def _go_down(self, why: str) -> None:
        """Refuse questions from now on, and look for the shard beside."""
        with self._lock:
            if self.is_down or self._is_closed.is_set():
                return
            self._why = why
        _logger.warning("shard %d is out of reach: %s", self.number, why)
        threading.Thread(target=self._wait_until_back, daemon=True).start()

    def _wait_until_back(self) -> None:
        while not self._is_closed.is_set():
            response = self._ping_replica.remote()
            try:
                response.result(timeout_s=self._wait_seconds)
            except (TimeoutError, *self._losses):
                response.cancel()  # type: ignore[no-untyped-call]
                self._is_closed.wait(_PAUSE_SECONDS)
                continue
            _logger.warning("shard %d is back", self.number)
            self._why = ""
            return


class RemotePort:
    """A shard or a group of them in other processes, as `ShardPort` wants it."""

    is_here = False

    def __init__(self, line: ShardLine, *, shards: tuple[int, ...] = ()) -> None:
        """Ask over a line; `shards` are those of a group."""
        self.number = line.number
        self.shards: tuple[int, ...] = shards or (line.number,)
        self.is_costly = line.is_costly
        self._line = line

    def answer(self, questions: Sequence[ShardQuestion]) -> tuple[tuple[ShardHits, ...], ...]:
        """Find the best documents of the shard by several searchers, for each query of each."""
        found: tuple[tuple[ShardHits, ...], ...] = self._line.ask("answer", questions)
        return found

    def settle(
        self, question: ShardQuestion, docids: Sequence[Sequence[str]]
    ) -> tuple[tuple[float | None, ...], ...]:
        """Score documents that were proposed for each query exactly."""
        asked = replace(question, prepared=None)
        found: tuple[tuple[float | None, ...], ...] = self._line.ask("settle", asked, docids)
        return found

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find the best documents of the shard, with all that is shown of them."""
        found: tuple[ShownHit, ...] = self._line.ask("find", request)
        return found

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits of the shard that were found for a request."""
        found: tuple[ShownHit, ...] = self._line.ask("show", request, hits)
        return found

    def show_settled(self, request: SearchRequest, docids: Sequence[str]) -> tuple[ShownHit, ...]:
        """Score documents that were proposed for a request exactly, and show them."""
        found: tuple[ShownHit, ...] = self._line.ask("show_settled", request, docids)
        return found

    def sign(self, docids: Sequence[str]) -> dict[str, bytes]:
        """Return what tells near-identical documents."""
        found: dict[str, bytes] = self._line.ask("sign", docids)
        return found

    def near(self, query: Query, docids: Sequence[str]) -> dict[str, Any]:
        """Return the vectors of documents that have one."""
        found: dict[str, Any] = self._line.ask("near", query, docids)
        return found

    def explain(
        self, query: Query, docids: Sequence[str], *, searcher: str, syntax: bool = True
    ) -> tuple[Part, ...]:
        """Say what the score of each of these documents is made of."""
        found: tuple[Part, ...] = self._line.ask(
            "explain", query, docids, searcher=searcher, syntax=syntax
        )
        return found

    def fetch(self, docids: Sequence[str]) -> tuple[Document, ...]:
        """Fetch documents of the shard."""
        found: tuple[Document, ...] = self._line.ask("fetch", docids)
        return found

    def held(self) -> HeldVectors:
        """Count the vectors of the shard, and those it will have."""
        found: HeldVectors = self._line.ask("held")
        return found

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents of the shard have no vector yet."""
        found: frozenset[str] = self._line.ask("lacking", docids)
        return found

    def status(self) -> dict[str, Any]:
        """Describe the shard, and count what it was asked from here, past Ray."""
        found: dict[str, Any] = self._line.ask("status")
        counts = self._line.counts
        if counts is None or self.shards != (self.number,):
            return found
        return {**found, "questions": asdict(counts)}


def losses() -> tuple[type[Exception], type[Exception]]:
    """List what Ray raises where a replica or its machine is gone."""
    from ray.exceptions import RayError

    return RayError, load_serve().exceptions.RayServeException


def _reason(error: BaseException) -> str:
    """Say in a few words what Ray says at length."""
    text = " ".join(str(error).split())
    return f"its process or machine was lost ({type(error).__name__}: {text[:120]})"
