"""A small server with each parser and each event loop, for tests of its connections."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from fastapi import FastAPI, Request
from listening import listening
from wire import post

from quoth.server.connections.process import Server
from quoth.server.run import make_server
from quoth.settings.server import ServerConfig

WIRES = [(parser, loop) for parser in ("httptools", "h11") for loop in ("asyncio", "uvloop")]
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half:"
HALF_BODY = post("/length", b"half").replace(b"Content-Length: 4", b"Content-Length: 8")
HELD = GET.replace(b"/ ", b"/held ")
LARGE = 16 * 1024 * 1024


def make_app(begun: threading.Semaphore, free: threading.Event) -> FastAPI:
    """Make a small application: one route answers at once, one reads a body, one is held.

    The held one says that it has begun, and answers when it is set free; so does the large one,
    but it answers at once.
    """
    app = FastAPI()

    @app.get("/")
    async def root() -> str:
        return "here"

    @app.post("/length")
    async def length(request: Request) -> int:
        return len(await request.body())

    @app.get("/held")
    async def held() -> str:
        begun.release()
        while not free.is_set():
            await asyncio.sleep(0.01)
        return "done"

    @app.get("/large")
    async def large() -> str:
        begun.release()
        return "x" * LARGE

    return app


class Wire:
    """A parser and an event loop."""

    def __init__(self, parser: str, loop: str) -> None:
        self._parser = parser
        self._loop = loop
        self.begun = threading.Semaphore(0)
        self.free = threading.Event()
        self._server: Server

    @staticmethod
    def is_installed(parser: str, loop: str) -> bool:
        """Say whether both are there; asyncio always is."""
        return all(importlib.util.find_spec(name) is not None for name in (parser, loop))

    def make(self, config: ServerConfig) -> Server:
        """Make a server of the small application."""
        server = make_server(make_app(self.begun, self.free), config)
        server.config.http, server.config.loop = self._parser, self._loop
        self._server = server
        return server

    def wait_until_alone(self, seconds: float) -> bool:
        """Wait until the server has no connection any more; False where that takes too long."""
        for _look in range(int(seconds / 0.02)):
            if not len(self._server.connections):
                return True
            threading.Event().wait(0.02)
        return False

    @contextmanager
    def serve(self, config: ServerConfig) -> Iterator[str]:
        """Serve the small application; gives its address."""
        with listening(self.make(config)) as url:
            try:
                yield url
            finally:
                self.free.set()


def on_every_wire(check: Callable[[Wire], None]) -> Callable[[], None]:
    """Make a test of a check with every parser and every loop.

    All are tried at the same time, since servers and clients mostly wait for limits of time.
    """

    def test() -> None:
        wires = [each for each in WIRES if Wire.is_installed(*each)]
        with ThreadPoolExecutor(len(wires)) as threads:
            tried = [threads.submit(check, Wire(*each)) for each in wires]
        for wire, future in zip(wires, tried, strict=True):
            if (error := future.exception()) is not None:
                error.add_note(f"with {' and '.join(wire)}")
                raise error

    test.__doc__ = check.__doc__
    return test
