"""Whether a server would answer a search now; its liveness says only that it runs.

A search of one word is done as any other, so that everything which can keep searches from being
answered shows: models that are being loaded, workers that are all busy, an index that is damaged.
The outcome is kept for a second, so that asking often costs little.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from quoth.engine.searchers import AUTO
from quoth.errors import QuothError
from quoth.records import SearchRequest
from quoth.server.errors import NotReady, RequestError
from quoth.server.workers.pool import WorkerPool
from quoth.shards.opening import OpenedEngine

WARM = SearchRequest("a", k=1, searcher=AUTO)
"""A search of one word, by the best searcher that the collection has."""

_KEPT_SECONDS = 1.0
_LONGEST_SECONDS = 2.0
_LOADING = "models are being loaded; try again in a moment"
_FULL = "too many requests are waiting; try again in a moment"


class Readiness:
    """The state of the pool that searches, found out when somebody asks."""

    def __init__(self, readers: WorkerPool, search: Callable[[OpenedEngine], None]) -> None:
        self.is_loaded = False
        """Set when models have been loaded, or cannot be."""

        self._readers = readers
        self._search = search
        self._turn = asyncio.Lock()
        self._asked = -_KEPT_SECONDS
        self._trouble = ""

    async def require(self) -> None:
        """Complain where a search would not be answered now."""
        if not self.is_loaded:
            raise NotReady(_LOADING)
        async with self._turn:
            if time.monotonic() - self._asked >= _KEPT_SECONDS:
                self._trouble = await self._find_trouble()
                self._asked = time.monotonic()
            trouble = self._trouble
        if trouble:
            raise NotReady(trouble)

    async def is_ready(self) -> bool:
        """Whether a search would be answered now."""
        try:
            await self.require()
        except NotReady:
            return False
        return True

    async def _find_trouble(self) -> str:
        if self._readers.would_refuse:
            return _FULL
        try:
            await self._readers.run(self._search, seconds=_LONGEST_SECONDS)
        except (QuothError, RequestError) as error:
            return str(error)
        return ""
