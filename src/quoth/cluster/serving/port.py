"""A shard behind Ray Serve: what is asked goes to one of its replicas, and once more to another.

A replica whose machine is lost leaves what was under way there unanswered; searching changes
nothing, so it is asked again. Where no replica answers, the shard counts as out of reach, and every
question is refused at once, without waiting, until one answers a ping.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quoth import errors
from quoth.cluster.connecting import load_serve
from quoth.cluster.serving.replica import Reply
from quoth.errors import ClusterError, QuothError, ShardDown
from quoth.records import Document, Hit, Part, Query, Run, SearchRequest, ShownHit

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

    def __init__(self, number: int, handle: DeploymentHandle[Any], *, wait_seconds: float) -> None:
        from ray.exceptions import RayError, RayTaskError

        serve_exceptions = load_serve().exceptions
        self._failed = RayTaskError
        self._losses = (RayError, serve_exceptions.RayServeException)
        self.number = number
        self._ask_replica, self._ping_replica = handle.ask, handle.ping
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._why = ""
        self._is_closed = threading.Event()

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the port that a replica holds."""
        if self.is_down:
            raise ShardDown(self.number, self._why)
        for _attempt in range(_ATTEMPTS):
            try:
                reply = self._ask_one(method, arguments, options)
            except ShardDown as error:
                why = error.why
            else:
                return self._value_of(reply)
        self._go_down(why)
        raise ShardDown(self.number, why)

    @property
    def is_down(self) -> bool:
        """Whether questions are refused until a replica answers."""
        return bool(self._why)

    def close(self) -> None:
        """Stop looking whether the shard is back."""
        self._is_closed.set()

    def _ask_one(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        response = self._ask_replica.remote(method, arguments, options)
        try:
            reply: Reply = response.result(timeout_s=self._wait_seconds)
            return reply
        except TimeoutError as error:
            response.cancel()  # type: ignore[no-untyped-call]
            why = f"no replica answered within {self._wait_seconds:g} seconds"
            raise ShardDown(self.number, why) from error
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
    """A shard in other processes, as `ShardPort` wants it."""

    def __init__(self, line: ShardLine) -> None:
        self.number = line.number
        self._line = line

    def run(
        self, queries: Sequence[Query], *, k: int, where: str, searcher: str, syntax: bool
    ) -> Run:
        """Find the k best documents of the shard."""
        found: Run = self._line.ask(
            "run", queries, k=k, where=where, searcher=searcher, syntax=syntax
        )
        return found

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find the best documents of the shard, with all that is shown of them."""
        found: tuple[ShownHit, ...] = self._line.ask("find", request)
        return found

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits of the shard that were found for a request."""
        found: tuple[ShownHit, ...] = self._line.ask("show", request, hits)
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

    def status(self) -> dict[str, Any]:
        """Describe the shard."""
        found: dict[str, Any] = self._line.ask("status")
        return found


def _reason(error: BaseException) -> str:
    """Say in a few words what Ray says at length."""
    text = " ".join(str(error).split())
    return f"its process or machine was lost ({type(error).__name__}: {text[:120]})"
