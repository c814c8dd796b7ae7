"""Connections of a server under clients that stall, flood or cheat, with every parser and loop."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from fastapi import FastAPI, Request
from listening import listening
from wire import connected, post, read_last_reply, read_reply, read_to_end, send

from quoth.app.server_config import ServerConfig
from quoth.app.server_refusals import MAX_HEAD_BYTES, MAX_HEADERS
from quoth.app.serving import make_server
from quoth.errors import ConfigError

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half:"
HALF_BODY = post("/length", b"half").replace(b"Content-Length: 4", b"Content-Length: 8")
LARGE = 16 * 1024 * 1024


def make_app() -> FastAPI:
    """Make a small application: one route answers at once, one reads a body, one takes its time."""
    app = FastAPI()

    @app.get("/")
    async def root() -> str:
        return "here"

    @app.post("/length")
    async def length(request: Request) -> int:
        return len(await request.body())

    @app.get("/slow")
    async def slow() -> str:
        await asyncio.sleep(1.0)
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

    @contextmanager
    def serve(self, config: ServerConfig) -> Iterator[str]:
        """Serve the small application; gives its address."""
        server = make_server(make_app(), config)
        server.config.http, server.config.loop = self._parser, self._loop
        with listening(server) as url:
            yield url


@pytest.fixture(
    params=[(parser, loop) for parser in ("httptools", "h11") for loop in ("asyncio", "uvloop")],
    ids="-".join,
)
def wire(request: pytest.FixtureRequest) -> Wire:
    for name in set(request.param) - {"asyncio"}:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    return Wire(*request.param)


# Limits of time --------------------------------------------------------------------------------


def test_a_request_that_stops_half_way_is_answered_408(wire: Wire) -> None:
    with wire.serve(ServerConfig(header_seconds=0.3, body_seconds=0.6)) as url:
        for half in (HALF_HEAD, HALF_BODY):
            with connected(url, half) as client:
                reply = read_last_reply(client)
                assert reply.status == 408 and reply.rest == b""
                assert reply.error()["kind"] == "RequestTimeout"
                assert reply.error()["request_id"] == reply.headers["x-request-id"]
        with connected(url, GET) as client:
            assert read_reply(client).status == 200


def test_bytes_that_trickle_in_extend_no_limit(wire: Wire) -> None:
    with wire.serve(ServerConfig(header_seconds=0.5, body_seconds=0.5)) as url:
        for begun, piece in ((HALF_HEAD, b"x"), (post("/length", b"", "X: 1")[:-2], b"Y: 2\r\n")):
            with connected(url, begun) as client:
                client.settimeout(0.05)
                reply = _trickle(client, piece)
                assert reply.startswith(b"HTTP/1.1 408 ")
        chunked = b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        with connected(url, chunked) as client:
            client.settimeout(0.05)
            assert _trickle(client, b"1\r\nx\r\n").startswith(b"HTTP/1.1 408 ")


def _trickle(client: socket.socket, piece: bytes) -> bytes:
    """Send a little again and again until the server answers; it must before a minute is over."""
    for _ in range(1_200):
        send(client, piece)
        try:
            return client.recv(65_536)
        except TimeoutError:
            continue
    raise AssertionError("the server waited for ever")


def test_a_silent_connection_is_closed_without_an_answer(wire: Wire) -> None:
    with (
        wire.serve(ServerConfig(header_seconds=0.2)) as url,
        connected(url) as client,
    ):
        assert read_to_end(client) == b""


def test_rest_between_requests_is_no_stall_but_half_a_second_one_is(wire: Wire) -> None:
    config = ServerConfig(header_seconds=0.3, body_seconds=0.3, keep_alive_seconds=60)
    with wire.serve(config) as url, connected(url) as client:
        for request in (GET, post("/length", b"body")):
            send(client, request)
            assert read_reply(client).status == 200
            time.sleep(1.0)
        send(client, HALF_HEAD)
        assert read_last_reply(client).status == 408


def test_work_is_not_cut_by_the_limits_of_arrival(wire: Wire) -> None:
    config = ServerConfig(header_seconds=0.2, body_seconds=0.2)
    with wire.serve(config) as url, connected(url, GET.replace(b"/ ", b"/slow ")) as client:
        assert read_reply(client).body == b'"done"'


def test_a_body_that_nobody_reads_is_waited_for_no_longer(wire: Wire) -> None:
    half = b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"
    with wire.serve(ServerConfig(body_seconds=0.3)) as url, connected(url, half) as client:
        reply = read_last_reply(client)
        assert reply.status == 404 and reply.rest == b""


def test_a_client_that_takes_nothing_of_a_response_is_disconnected(wire: Wire) -> None:
    config = ServerConfig(body_seconds=0.3)
    with wire.serve(config) as url:
        with connected(url, GET.replace(b"/ ", b"/large ")) as client:
            time.sleep(3.0)
            assert len(read_to_end(client)) < LARGE
        with connected(url, GET.replace(b"/ ", b"/large ")) as client:
            assert len(read_reply(client).body) == LARGE + 2


# Limits of number ------------------------------------------------------------------------------


def test_idle_and_half_sent_connections_keep_nobody_out(wire: Wire) -> None:
    config = ServerConfig(max_connections=100, header_seconds=60, body_seconds=60)
    with wire.serve(config) as url, ExitStack() as stack:
        for at in range(100):
            half = (b"", HALF_HEAD, GET)[at % 3]
            client = stack.enter_context(connected(url, half))
            if half == GET:
                assert read_reply(client).status == 200
        time.sleep(1.2)  # from here on, half-sent ones give way
        for _ in range(60):
            client = stack.enter_context(connected(url, GET))
            assert read_reply(client).status == 200


def test_the_connection_that_rested_longest_gives_way(wire: Wire) -> None:
    with wire.serve(ServerConfig(max_connections=2)) as url, ExitStack() as stack:
        first, second = (stack.enter_context(connected(url, GET)) for _ in range(2))
        for client in (first, second):
            assert read_reply(client).status == 200
        send(first, GET)
        assert read_reply(first).status == 200  # now the second has rested longest
        time.sleep(0.3)
        assert read_reply(stack.enter_context(connected(url, GET))).status == 200
        assert read_to_end(second) == b""
        send(first, GET)
        assert read_reply(first).status == 200


def test_beyond_the_limit_a_connection_is_answered_503(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    slow = GET.replace(b"/ ", b"/slow ")
    with (
        caplog.at_level(logging.WARNING),
        wire.serve(ServerConfig(max_connections=2)) as url,
        ExitStack() as stack,
    ):
        working = [stack.enter_context(connected(url, slow)) for _ in range(2)]
        time.sleep(0.2)
        for _ in range(20):
            reply = read_last_reply(stack.enter_context(connected(url, GET)))
            assert reply.status == 503 and reply.headers["retry-after"] == "1"
            assert reply.error()["kind"] == "Overloaded"
        assert [read_reply(each).status for each in working] == [200, 200]
        time.sleep(0.3)
        assert read_reply(stack.enter_context(connected(url, GET))).status == 200
    lines = [each.getMessage() for each in caplog.records if "turned away" in each.getMessage()]
    assert 1 <= len(lines) <= 3


# Heads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begun", "piece"),
    [
        (b"GET /", b"a" * 1_000),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"a" * 1_000),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: " + b"a" * 10_000 + b"\r\n"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: a\r\n" * 10),
        (
            b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            b"a" * 1_000,
        ),
        (
            b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
            b"a" * 1_000,
        ),
    ],
    ids=["line", "header", "long-headers", "many-headers", "extension", "trailer"],
)
def test_what_has_no_end_is_refused(wire: Wire, begun: bytes, piece: bytes) -> None:
    with wire.serve(ServerConfig()) as url:
        with connected(url, begun) as client:
            sent = 0
            while sent < 64 * 1024 * 1024 and send(client, piece):
                sent += len(piece)
            assert sent < 64 * 1024 * 1024
        with connected(url, GET) as client:
            assert read_reply(client).status == 200


def test_a_large_head_is_answered_431(wire: Wire) -> None:
    many = b"".join(b"X-%d: a\r\n" % at for at in range(MAX_HEADERS))
    long = b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n"
    with wire.serve(ServerConfig()) as url:
        for headers in (many, long):
            with connected(url, GET[:-2] + headers + b"\r\n") as client:
                reply = read_last_reply(client)
                assert reply.status == 431 and reply.error()["kind"] == "TooLarge"
        few = b"".join(b"X-%d: a\r\n" % at for at in range(MAX_HEADERS - 1))
        with connected(url, GET[:-2] + few + b"\r\n") as client:
            assert read_reply(client).status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
        b"POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        b"POST /length HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        b"POST /length HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        b"POST /length HTTP/1.1\nHost: a\nContent-Length: 0\n\n",
        b"POST /length HTTP/1.1\r\nHost: a\r\nX: b\nContent-Length: 0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"no HTTP at all\r\n\r\n",
    ],
)
def test_what_a_proxy_could_understand_otherwise_is_refused(wire: Wire, head: bytes) -> None:
    with wire.serve(ServerConfig()) as url, connected(url, head + b"0\r\n\r\n" + GET) as client:
        reply = read_last_reply(client)
        assert reply.status == 400 and reply.error()["kind"] == "BadRequest"
        assert reply.rest == b""  # what came after it was not served


def test_requests_in_a_row_are_answered_in_a_row(wire: Wire) -> None:
    with (
        wire.serve(ServerConfig()) as url,
        connected(url, GET + post("/length", b"four") + GET) as client,
    ):
        reply = read_reply(client)
        data = reply.rest
        while data.count(b"HTTP/1.1 200 ") < 2 or not data.endswith(b'"here"'):
            data += client.recv(65_536)
        assert reply.body == b'"here"' and b"\r\n\r\n4HTTP/1.1 200 " in data


def test_a_wish_for_another_protocol_is_ignored(wire: Wire) -> None:
    for wish in (b"websocket", b"h2c"):
        asked = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: " + wish + b"\r\n\r\n"
        with wire.serve(ServerConfig()) as url, connected(url, asked) as client:
            assert read_reply(client).body == b'"here"'


# Settings --------------------------------------------------------------------------------------


def test_settings_of_connections_are_checked() -> None:
    with pytest.raises(ConfigError) as caught:
        ServerConfig(
            max_connections=0,
            header_seconds=0,
            body_seconds=-1,
            shutdown_seconds=0,
            proxies=("example.org",),
            path_prefix="notes/",
        )
    for name in ("max_connections", "header_seconds", "body_seconds", "shutdown_seconds"):
        assert f"{name} is" in str(caught.value)
    assert "proxies has 'example.org'" in str(caught.value)
    assert "path_prefix is 'notes/'" in str(caught.value)
