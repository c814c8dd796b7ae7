"""One process that serves one shard: it opens a port, and answers what is asked through it.

A port is made for one thread. Ray Serve makes a replica and runs its methods on one thread, beside
another that tells Ray that the process lives, so each question is answered there and then: the next
one has to wait, and nothing is handed from thread to thread. What goes wrong on purpose
(`QuothError`) travels as a reply, by name and message: Ray would wrap it into an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        self._port = open_port()

    async def ask(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Reply:
        """Call a method of the port."""
        try:
            return Reply(getattr(self._port, method)(*arguments, **options))
        except QuothError as error:
            return Reply(None, type(error).__name__, str(error))

    async def ping(self) -> None:
        """Answer once all that was asked before is answered."""
