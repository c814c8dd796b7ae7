"""The head of a response leaves together with its body, and alone where nothing follows at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import uvicorn
from wire import post

from quoth.server.connections.connections import Connections
from quoth.settings.server import ServerConfig

pytest.importorskip("httptools")

from quoth.server.connections.httptools_connection import HttpToolsConnection

ASKED = post("/", b"{}")
HEAD = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = post("/", b"{}", "Connection: close")
EXPECTING = post("/", b"{}", "Expect: 100-continue")


class _Transport(asyncio.Transport):
    """Keeps the pieces that are written, and None for the end."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 7), "sockname": ("127.0.0.1", 8)})
        self.pieces: list[bytes | None] = []

    def write(self, data: Any) -> None:
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.pieces.append(None)

    def is_closing(self) -> bool:
        return None in self.pieces

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def converse(
    pieces: Sequence[bytes], body: Sequence[bytes], *, waits: bool = False, length: bool = True
) -> list[bytes | None]:
    """Send pieces; the answer has a body in parts, before each of which others have their turn."""
    transport = _Transport()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body", False):
            pass
        headers = [(b"content-length", b"%d" % sum(map(len, body)))] if length else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, part in enumerate(body, start=1):
            for _turn in range(3 * waits):
                await asyncio.sleep(0)
            more = number < len(body)
            await send({"type": "http.response.body", "body": part, "more_body": more})

    async def talk() -> None:
        config = uvicorn.Config(app, http=HttpToolsConnection, ws="none", lifespan="off")
        config.load()
        connection = HttpToolsConnection(
            Connections(ServerConfig()),
            config=config,
            server_state=uvicorn.server.ServerState(),
            app_state={},
        )
        connection.connection_made(transport)
        for piece in pieces:
            connection.data_received(piece)
            for _turn in range(30):
                await asyncio.sleep(0)
        connection.connection_lost(RuntimeError("the test is over"))

    asyncio.run(talk())
    return transport.pieces


def test_a_response_leaves_in_one_piece() -> None:
    (sent,) = converse([ASKED], [b"owls"])
    assert sent is not None
    assert sent.startswith(b"HTTP/1.1 200 OK\r\n") and sent.endswith(b"\r\n\r\nowls")


def test_so_it_does_where_the_body_of_the_request_comes_later() -> None:
    assert converse([ASKED[:-2], ASKED[-2:]], [b"owls"]) == converse([ASKED], [b"owls"])


def test_an_empty_body_keeps_no_head_back() -> None:
    (sent,) = converse([ASKED], [b""])
    assert sent is not None and sent.endswith(b"\r\n\r\n")


def test_a_head_that_nothing_follows_at_once_leaves_alone() -> None:
    head, *parts = converse([ASKED], [b"owls", b"at", b"dusk"], waits=True)
    assert head is not None and head.endswith(b"\r\n\r\n")
    assert parts == [b"owls", b"at", b"dusk"]


def test_parts_that_follow_leave_as_they_come() -> None:
    first, *others = converse([ASKED], [b"owls", b"at"], length=False)
    assert first is not None and first.endswith(b"\r\n\r\n4\r\nowls\r\n")
    assert others == [b"2\r\nat\r\n0\r\n\r\n"]


def test_nothing_is_lost_where_the_connection_ends() -> None:
    sent, end = converse([LAST], [b"owls"])
    assert sent is not None and sent.endswith(b"owls") and end is None


def test_responses_keep_their_order() -> None:
    whole = converse([ASKED], [b"owls"])
    assert converse([ASKED * 3], [b"owls"]) == whole * 3
    head, *others = converse([HEAD + ASKED + HEAD], [b"owls"])
    assert head is not None and whole[0] == head + b"owls"
    assert others == [head + b"owls", head]


def test_a_client_is_told_to_go_on() -> None:
    go_on, *others = converse([EXPECTING[:-2], EXPECTING[-2:]], [b"owls"])
    assert go_on == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert others[-1] == b"owls"
