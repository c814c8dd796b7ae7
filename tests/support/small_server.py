"""A small server with each parser and each event loop, for tests of its connections."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI, Request
from listening import listening
from wire import post

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

    The held one says that it has begun, and answers when it is set free.
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
        return "x" * LARGE

    return app


class Wire:
    """A parser and an event loop."""

    def __init__(self, parser: str, loop: str) -> None:
        self._parser = parser
        self._loop = loop
        self.begun = threading.Semaphore(0)
        self.free = threading.Event()

    @classmethod
    def installed(cls, parser: str, loop: str) -> Wire:
        """Return these two, or skip the test where one of them is not installed."""
        for name in {parser, loop} - {"asyncio"}:
            if importlib.util.find_spec(name) is None:
                pytest.skip(f"{name} is not installed")
        return cls(parser, loop)

    def make(self, config: ServerConfig) -> uvicorn.Server:
        """Make a server of the small application."""
        server = make_server(make_app(self.begun, self.free), config)
        server.config.http, server.config.loop = self._parser, self._loop
        return server

    @contextmanager
    def serve(self, config: ServerConfig) -> Iterator[str]:
        """Serve the small application; gives its address."""
        with listening(self.make(config)) as url:
            try:
                yield url
            finally:
                self.free.set()
