"""The server as a process: uvicorn's, with connections that are bounded and an end that is, too."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import logging
import os
import signal
import socket
import threading
from types import FrameType
from typing import Any

import uvicorn

from quoth.server.connections.accepting import Acceptor
from quoth.server.connections.connections import Connection, Connections
from quoth.settings.server import ServerConfig

_CLOSING_SECONDS = 5.0  # for what comes after the last response: files are closed
_logger = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Serves an application at sockets that listen already."""

    ends_process = False
    """Whether the process is for this server alone, so that it may be ended with work undone."""

    def __init__(self, config: uvicorn.Config, settings: ServerConfig) -> None:
        super().__init__(config)
        self.connections = Connections(settings)
        self._settings = settings

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept connections."""
        await super().startup(sockets=[])
        make = functools.partial(
            connection_class(str(self.config.http)),
            self.connections,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        acceptors: list[Any] = [Acceptor(each, self.connections, make) for each in sockets or ()]
        self.servers.extend(acceptors)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, finish what is under way, and close what takes too long."""
        self.connections.are_ending = True
        loop = asyncio.get_running_loop()
        loop.call_later(self._settings.shutdown_seconds, self.connections.end_all)
        await super().shutdown(sockets)
        self.connections.late.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in an orderly way; at a second signal, at once."""
        if self.ends_process and self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        elif self.ends_process:
            seconds = self._settings.shutdown_seconds + _CLOSING_SECONDS
            limit = threading.Timer(seconds, _give_up, [seconds])
            limit.daemon = True
            limit.start()
        super().handle_exit(sig, frame)


def connection_class(parser: str) -> type[Connection]:
    """Return the class of connections for a parser: httptools, h11, or auto for the faster one."""
    if parser == "auto":
        parser = "h11" if importlib.util.find_spec("httptools") is None else "httptools"
    if parser == "httptools":
        from quoth.server.connections.httptools_connection import HttpToolsConnection

        return HttpToolsConnection
    from quoth.server.connections.h11_connection import H11Connection

    return H11Connection


def _give_up(seconds: float) -> None:
    """End the process with work undone; what was acknowledged is on disk."""
    _logger.error("work was not finished within %g seconds; ending without it", seconds)
    os._exit(1)
