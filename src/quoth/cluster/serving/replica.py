"""One process that serves one shard: it opens a port, and answers what is asked through it.

A port answers one question at a time, on the thread that asks: through Ray Serve the one that runs
a replica's methods, and past it one per connection (`direct.py`). What goes wrong on purpose
(`QuothError`) travels as a reply, by name and message: Ray would wrap it into an error of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quoth.cluster.connecting import own_address
from quoth.cluster.serving.direct import Address, Listening
from quoth.errors import QuothError
from quoth.search.fan_out import ShardPort
from quoth.search.group import GroupPort

FAILED = "!"
"""The kind of a reply to what went wrong unforeseen."""

_logger = logging.getLogger(__name__)

OpenPort = Callable[[], ShardPort | GroupPort]
"""Opens a shard as it is now, or a group of them; it travels to the process that serves it, so it
is pickled."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a method of a port gave, or the error of ours that it raised."""

    value: Any = None
    kind: str = ""
    message: str = ""


class ShardReplica:
    """A shard in a process of its own, under Ray Serve."""

    def __init__(self, open_port: OpenPort, *, host: str = "", key: bytes = b"") -> None:
        """Open the shard; with a key, listen for routers that know it, too."""
        self._port = open_port()
        self._listening = Listening(host or own_address(), self._answer, key=key) if key else None

    async def ask(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        """Call a method of the port."""
        return self._call(method, arguments, options)

    async def address(self) -> Address:
        """Say where this replica listens."""
        assert self._listening is not None
        return self._listening.address

    def _answer(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        """Call a method of the port for a router that is connected."""
        try:
            return self._call(method, arguments, options)
        except Exception as error:  # else the router could not tell it from a lost replica
            _logger.exception("a question failed")
            return Reply(None, FAILED, f"{type(error).__name__}: {error}")

    def _call(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        try:
            return Reply(getattr(self._port, method)(*arguments, **options))
        except QuothError as error:
            return Reply(None, type(error).__name__, str(error))

    async def ping(self) -> None:
        """Answer once all that was asked before is answered."""


class GroupReplica(ShardReplica):
    """An inner router in a process of its own: it waits for shards, which Ray forbids its loop."""

    async def ask(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        """Call a method of the port on a thread of its own."""
        return await asyncio.to_thread(self._call, method, arguments, options)
