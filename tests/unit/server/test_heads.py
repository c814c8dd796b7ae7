"""Heads of requests that have no end, or that a proxy could understand otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_server import GET, WIRES, Wire
from wire import connected, post, read_last_reply, read_reply, send

from quoth.server.connections.refusals import MAX_HEAD_BYTES, MAX_HEADERS
from quoth.settings.server import ServerConfig


@pytest.fixture(params=WIRES, ids="-".join, scope="module")
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of one server for all tests of a parser and a loop."""
    if not Wire.is_installed(*request.param):
        pytest.skip(f"{' or '.join(request.param)} is not installed")
    with Wire(*request.param).serve(ServerConfig()) as served:
        yield served


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
def test_what_has_no_end_is_refused(url: str, begun: bytes, piece: bytes) -> None:
    with connected(url, begun) as client:
        sent = 0
        while sent < 64 * 1024 * 1024 and send(client, piece):
            sent += len(piece)
        assert sent < 64 * 1024 * 1024
    with connected(url, GET) as client:
        assert read_reply(client).status == 200


def test_a_large_head_is_answered_431(url: str) -> None:
    many = b"".join(b"X-%d: a\r\n" % at for at in range(MAX_HEADERS))
    long = b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n"
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
def test_what_a_proxy_could_understand_otherwise_is_refused(url: str, head: bytes) -> None:
    with connected(url, head + b"0\r\n\r\n" + GET) as client:
        reply = read_last_reply(client)
        assert reply.status == 400 and reply.error()["kind"] == "BadRequest"
        assert reply.rest == b""  # what came after it was not served


def test_requests_in_a_row_are_answered_in_a_row(url: str) -> None:
    with connected(url, GET + post("/length", b"four") + GET) as client:
        reply = read_reply(client)
        data = reply.rest
        while data.count(b"HTTP/1.1 200 ") < 2 or not data.endswith(b'"here"'):
            data += client.recv(65_536)
        assert reply.body == b'"here"' and b"\r\n\r\n4HTTP/1.1 200 " in data


def test_a_wish_for_another_protocol_is_ignored(url: str) -> None:
    for wish in (b"websocket", b"h2c"):
        asked = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: " + wish + b"\r\n\r\n"
        with connected(url, asked) as client:
            assert read_reply(client).body == b'"here"'
