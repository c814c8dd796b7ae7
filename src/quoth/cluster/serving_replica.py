"""One process that serves one shard: it opens a port, and answers what is asked through it.

A port is made for one thread, so one thread of the process does all that is asked, in turn; the
process itself stays free to tell Ray that it lives. What goes wrong on purpose (`QuothError`)
travels as a reply, by name and message: Ray would wrap it into an error of its own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from quoth.errors import QuothError
from quoth.search.merged import ShardPort

OpenPort = Callable[[], ShardPort]
"""Opens a shard as it is now; it travels to the process that serves the shard, so it is pickled."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a method of a port gave, or the error of ours that it raised."""

    value: Any = None
    kind: str = ""
    message: str = ""


class ShardReplica:
    """A shard in a process of its own, under Ray Serve."""

    def __init__(self, open_port: OpenPort) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="quoth-shard")
        self._port = self._thread.submit(open_port).result()

    async def ask(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        """Call a method of the port."""
        reply: Reply = await self._on_thread(
            functools.partial(self._call, method, arguments, options)
        )
        return reply

    async def ping(self) -> None:
        """Answer once all that was asked before is answered."""
        await self._on_thread(lambda: None)

    async def _on_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _call(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        try:
            return Reply(getattr(self._port, method)(*arguments, **options))
        except QuothError as error:
            return Reply(None, type(error).__name__, str(error))
