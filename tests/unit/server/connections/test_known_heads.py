"""A head that is known is not parsed again, and nobody can tell from outside."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from wire import post

from quoth.server.connections import known_heads
from quoth.server.connections.connections import Connections
from quoth.server.connections.known_heads import KnownHead, KnownHeads
from quoth.settings.server import ServerConfig

pytest.importorskip("httptools")

from quoth.server.connections.httptools_connection import HttpToolsConnection

_ID = re.compile(rb"[0-9a-f]{16}")
ASKED = post("/search", b"{}", "Accept: */*")
LONGER = post("/search", b"{   }", "Accept: */*")
GET = b"GET /search HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CHUNKED = ASKED.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")[:-2] + b"0\r\n\r\n"
LOOSE = ASKED.replace(b"\r\n\r\n", b"\n\n") + b"\r\n\r\n"
LAST = ASKED.replace(b"Accept: */*", b"Connection: close")
OLD = ASKED.replace(b"HTTP/1.1", b"HTTP/1.0")
UPGRADE = ASKED.replace(b"Accept: */*", b"Connection: upgrade\r\nUpgrade: h2c")
EXPECTING = ASKED.replace(b"Accept: */*", b"Expect: 100-continue")


@dataclass
class Noted:
    """What a connection was seen to do."""

    sent: list[bytes] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    served: list[dict[str, Any]] = field(default_factory=list)
    states: list[tuple[object, ...]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)


class _Transport:
    """Takes what is written."""

    def __init__(self, noted: Noted) -> None:
        self._noted = noted

    def write(self, data: bytes) -> None:
        self._noted.sent.append(_ID.sub(b"an id", data))

    def is_closing(self) -> bool:
        return bool(self._noted.ended)

    def close(self) -> None:
        self._noted.ended.append("closed")

    def abort(self) -> None:
        self._noted.ended.append("aborted")

    def write_eof(self) -> None:
        self._noted.ended.append("ended")

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 7) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _Early:
    """Lets in the requests whose numbers are told, and refuses all others.

    Heads that are known are judged by themselves, or left to be judged like others.
    """

    def __init__(self, noted: Noted, room: Sequence[int], *, knows: bool) -> None:
        self._noted = noted
        self._room = room
        self._knows = knows

    def refuse(self, scope: dict[str, Any], _headers: object) -> bytes:
        self._noted.asked.append({**scope, "headers": list(scope["headers"])})
        if len(self._noted.asked) - 1 not in self._room:
            return b"refused"
        scope["route"], scope["state"]["key"] = "the route", "a key"
        return b""

    def refuse_known(self, head: KnownHead, client: object, _headers: object) -> bytes:
        if not self._knows or len(self._noted.asked) in self._room:
            return b""
        told = {"method": head.method, "path": head.path, "headers": list(head.headers)}
        self._noted.asked.append({**told, "client": client})
        return b"refused"


def converse(
    pieces: Iterable[bytes], room: Sequence[int], heads: KnownHeads, *, knows: bool = False
) -> Noted:
    """Send pieces one after another; `room` are the numbers of the requests that are let in."""
    noted = Noted()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, message = b"", {"more_body": True}
        while message.get("more_body", False):
            message = await receive()
            body += message.get("body", b"")
        noted.served.append({**scope, "body": body})
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def talk() -> None:
        config = uvicorn.Config(app, http=HttpToolsConnection, ws="none", lifespan="off")
        config.load()
        connections = Connections(ServerConfig())
        connections.early, connections.heads = _Early(noted, room, knows=knows), heads
        state = uvicorn.server.ServerState()
        connection = HttpToolsConnection(
            connections, config=config, server_state=state, app_state={"of": "the app"}
        )
        connection.connection_made(_Transport(noted))  # type: ignore[arg-type]
        for piece in pieces:
            connection.data_received(piece)
            for _turn in range(20):
                await asyncio.sleep(0)
            rests = connection.timeout_keep_alive_task is not None
            noted.states.append((connection._phase, rests, state.total_requests))
        connection.connection_lost(None)

    asyncio.run(talk())
    return noted


class _At:
    """A loop at a time that is told, which calls nothing later."""

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock

    def time(self) -> float:
        return self._clock[0]

    def call_later(self, _seconds: float, _call: object, *_given: object) -> Mock:
        return Mock()


class _Forgetful(KnownHeads):
    """Knows no head."""

    def add(self, data: bytes, **_given: Any) -> None:
        """Forget it."""


class _Counting(KnownHeads):
    """Counts the requests whose head was known."""

    num_known = 0

    def find(self, data: bytes) -> Any:
        found = super().find(data)
        self.num_known += found is not None
        return found


CONVERSATIONS: dict[str, tuple[list[bytes], tuple[int, ...], int]] = {
    "all refused": ([ASKED] * 5, (), 3),
    "two lengths": ([ASKED, LONGER, ASKED, LONGER, ASKED, LONGER], (), 3),
    "some let in": ([ASKED] * 6, (3, 5), 4),
    "the last two bytes later": ([ASKED, ASKED, ASKED, ASKED[:-2], ASKED[-2:], ASKED], (), 2),
    "let in, the last two bytes later": ([ASKED] * 3 + [ASKED[:-2], ASKED[-2:], ASKED], (3,), 2),
    "half a head": ([ASKED, ASKED, ASKED, ASKED[:20], ASKED[20:], ASKED], (), 2),
    "two at once": ([ASKED, ASKED, ASKED, ASKED * 2, ASKED * 3, ASKED], (), 2),
    "two at once, the first let in": ([ASKED, ASKED, ASKED, ASKED * 2, ASKED], (3,), 2),
    "two at once, the second let in": ([ASKED, ASKED, ASKED, ASKED * 2, ASKED], (4,), 2),
    "one and a half": ([ASKED, ASKED, ASKED + ASKED[:9], ASKED[9:], ASKED, ASKED], (), 2),
    "lines before": ([ASKED, b"\r\n" + ASKED, b"\r\n" + ASKED, b"\r\n\r\n" + ASKED], (), 1),
    "no body": ([GET] * 4, (3,), 2),
    "chunks": ([CHUNKED] * 4, (), 0),
    "loose lines": ([ASKED, LOOSE, LOOSE], (), 0),
    "the last": ([ASKED, ASKED, LAST], (2,), 0),
    "an old one": ([ASKED, OLD, OLD], (), 0),
    "an upgrade": ([ASKED, ASKED, UPGRADE], (), 0),
    "an expectation": ([ASKED, EXPECTING, EXPECTING], (), 0),
    "named": ([post("/search", b"{}", "X-Request-ID: a")] * 4, (), 0),
    "with a key": ([post("/search", b"{}", "Authorization: Bearer a")] * 4, (), 0),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_connection_that_knows_heads_does_what_others_do(name: str) -> None:
    pieces, room, num_known = CONVERSATIONS[name]
    counting = _Counting()
    known, parsed = converse(pieces, room, counting), converse(pieces, room, _Forgetful())
    assert known == parsed
    assert counting.num_known == num_known


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_known_head_that_is_judged_by_itself_is_answered_alike(name: str) -> None:
    pieces, room, _number = CONVERSATIONS[name]
    judged = converse(pieces, room, KnownHeads(), knows=True)
    parsed = converse(pieces, room, _Forgetful())
    both = zip(judged.asked, parsed.asked, strict=True)
    assert all(asked == {key: each[key] for key in asked} for asked, each in both)
    judged.asked.clear()
    parsed.asked.clear()
    assert judged == parsed


def test_a_rest_that_refusals_interrupt_begins_anew() -> None:
    """The timer that ends it is left alone, and looks when the connection was used last."""
    noted = Noted()

    async def talk() -> list[bool]:
        config = uvicorn.Config(lambda _scope: None, http=HttpToolsConnection, lifespan="off")
        config.load()
        connections = Connections(ServerConfig(keep_alive_seconds=60))
        connections.early = _Early(noted, (), knows=True)
        connection = HttpToolsConnection(
            connections, config=config, server_state=uvicorn.server.ServerState(), app_state={}
        )
        connection.connection_made(_Transport(noted))  # type: ignore[arg-type]
        clock, is_closing = [1_000.0], list[bool]()
        connection.loop = _At(clock)  # type: ignore[assignment]
        for _time in range(3):
            connection.data_received(ASKED)
        for seconds in (50.0, 20.0, 41.0):  # after the last request: 50, 20 and 61
            clock[0] += seconds
            connection.timeout_keep_alive_handler()
            is_closing.append(bool(noted.ended))
            if seconds == 50.0:
                connection.data_received(ASKED)
        return is_closing

    assert asyncio.run(talk()) == [False, False, True]
    assert len(noted.sent) == 4


def test_known_heads_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_heads, "_MOST", 3)
    heads = KnownHeads()
    for number in range(10):
        asked = post(f"/{number}")
        heads.add(asked, method="POST", path=f"/{number}", headers=[])
        assert heads.find(asked) is not None
    assert sum(heads.find(post(f"/{number}")) is not None for number in range(10)) <= 3
    long = post("/" + "x" * 2_000)
    heads.add(long, method="POST", path="/", headers=[])
    assert heads.find(long) is None
