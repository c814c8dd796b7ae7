"""What a server asks of the engine of a worker, of a collection in one piece or in shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from quoth.collection.store import Written
from quoth.engine.engine import Engine
from quoth.records import Attention, Document, Part, Passage, Snippet
from quoth.server.monitoring.timings import Stages
from quoth.server.workers.searchers import SharedModels
from quoth.server.workers.sharded import ServedShards, ShardedWorker
from quoth.server.workers.worker import AnswerInMaking, Served, make_engines
from quoth.shards.found import OutOfReach
from quoth.shards.opening import OpenedEngine


class Worker(Protocol):
    """An engine for one thread; what it is asked for is what a response shows."""

    unreachable: tuple[OutOfReach, ...]
    """Shards that the last search had to do without."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exception: object) -> None: ...

    def close(self) -> None:
        """Release all files."""
        ...

    def status(self) -> dict[str, Any]:
        """Describe the collection."""
        ...

    def choose(self, searcher: str) -> str:
        """Return the best searcher that the collection has where it may choose."""
        ...

    def find(
        self,
        query: str,
        *,
        k: int,
        offset: int = 0,
        where: Sequence[str] = (),
        searcher: str,
        explain: bool = False,
        syntax: bool = True,
    ) -> tuple[Served, ...]:
        """Find hits `offset` + 1 to `offset` + k, with all that is shown of them."""
        ...

    def explain_hits(
        self, query: str, docids: Sequence[str], *, searcher: str
    ) -> tuple[tuple[Part, Attention | None], ...]:
        """Say what scores are made of, and where the encoder looked."""
        ...

    def require(self, docid: str) -> Document:
        """Fetch a document, or say that there is none."""
        ...

    def put(self, documents: Sequence[Document]) -> Written:
        """Add or update documents, none of them where one cannot be stored."""
        ...

    def take_out(self, docid: str) -> None:
        """Remove a document, or say that there is none."""
        ...

    def begin_answer(
        self, question: str, *, k: int, searcher: str, threshold: float | None, phrases: bool
    ) -> AnswerInMaking:
        """Search, and begin to answer from what was found."""
        ...

    def load_language_model(self) -> None:
        """Load what answers, so that the first question need not wait for it."""
        ...

    def show_passages(self, question: str, passages: Sequence[Passage]) -> list[Snippet | None]:
        """Cut what is shown of the passages that an answer is made from."""
        ...


def make_workers(first: OpenedEngine, stages: Stages) -> Callable[[], Worker]:
    """Return what opens an engine for a worker; all of them share models."""
    if isinstance(first, Engine):
        return make_engines(first, stages)
    models = SharedModels(stages)
    return lambda: ShardedWorker(ServedShards.beside(first, models), stages)
