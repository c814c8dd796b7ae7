"""Whoever is refused anyway is answered by the connection, as the application would answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from listening import listening
from small_server import WIRES, Wire
from starlette.datastructures import Headers
from wire import Reply, connected, post, read_last_reply, read_reply, send

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server import early_refusals
from quoth.server.access.policy import Access, AccessPolicy
from quoth.server.errors import Overloaded
from quoth.server.routes import create_app
from quoth.server.run import make_server
from quoth.server.service import Service
from quoth.server.workers.pool import WorkerPool
from quoth.settings.server import ServerConfig

JSON = "Content-Type: application/json"
ASKED = post("/search", b'{"query": "owl"}', JSON)
OWN = ("date", "x-request-id")
"""Headers that differ from one response to the next."""


class Crowd:
    """Lets searches in, or refuses them all; notes how many were said to be ahead of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_there = True
        self.ahead: list[int] = []
        monkeypatch.setattr(Service, "admit_search", lambda _service, ahead: self._admit(ahead))

    def _admit(self, ahead: int) -> None:
        self.ahead.append(ahead)
        if self.is_there:
            raise Overloaded("too many requests are waiting", retry_seconds=2.5)


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Crowd:
    return Crowd(monkeypatch)


@pytest.fixture
def app(tmp_path: Path, crowd: Crowd) -> Iterator[FastAPI]:  # which holds on to what it asks
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents([Document("d", {"text": ("An owl hunts at night.",)})])
        yield create_app(engine)


@contextmanager
def serving(app: FastAPI, parser: str = "httptools", loop: str = "asyncio") -> Iterator[str]:
    if not Wire.is_installed(parser, loop):
        pytest.skip(f"{parser} or {loop} is not installed")
    server = make_server(app, ServerConfig())
    server.config.http, server.config.loop = parser, loop
    with listening(server) as url:
        yield url


def without_own(reply: Reply) -> tuple[int, dict[str, str], str]:
    """Return what is the same in all responses of a kind."""
    kept = {name: value for name, value in reply.headers.items() if name not in OWN}
    return reply.status, kept, reply.error()["message"]


@pytest.mark.parametrize(("parser", "loop"), WIRES)
def test_a_crowd_is_refused_and_may_ask_again(
    app: FastAPI, crowd: Crowd, parser: str, loop: str
) -> None:
    head, body = ASKED[:-4], ASKED[-4:]
    with serving(app, parser, loop) as url, connected(url, ASKED) as client:
        refused = read_reply(client)
        assert (refused.status, refused.headers["retry-after"]) == (429, "3")
        assert refused.error()["request_id"] == refused.headers["x-request-id"]
        assert refused.headers["cache-control"] == "no-store"
        send(client, head)
        assert without_own(read_reply(client)) == without_own(refused)  # with its body on its way
        send(client, body)
        crowd.is_there = False
        send(client, ASKED)
        assert read_reply(client).status == 200


def test_the_connection_answers_what_the_application_would(app: FastAPI, crowd: Crowd) -> None:
    asked = [
        ASKED,
        ASKED.replace(b"Host: 127.0.0.1", b"Host: example.org"),
        ASKED.replace(b"application/json", b"text/plain"),
        ASKED.replace(b"Content-Length: 16", b"Content-Length: 99999999999"),
    ]
    served = app.state.refuse_early
    replies = []
    for refuse_early in (served, None):
        app.state.refuse_early = refuse_early
        with serving(app) as url:
            for each in asked:
                with connected(url, each) as client:
                    replies.append(without_own(read_reply(client)))
    assert [status for status, _headers, _message in replies] == [429, 403, 415, 413] * 2
    assert replies[:4] == replies[4:]


def test_whoever_is_refused_is_counted_and_never_becomes_a_task(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(app) as url:
        with monkeypatch.context() as patched, connected(url) as client:
            patched.setattr("quoth.server.middleware.Middleware.__call__", None)
            for _time in range(2):
                send(client, ASKED)
                assert read_reply(client).status == 429
        with connected(url, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as client:
            told = read_reply(client).body.decode()
    assert 'route="/search",status="429"} 2' in told


def test_a_last_request_is_answered_by_the_application(app: FastAPI, crowd: Crowd) -> None:
    with (
        serving(app) as url,
        connected(url, ASKED.replace(b"Host", b"Connection: close\r\nHost")) as client,
    ):
        reply = read_last_reply(client)
    assert (reply.status, reply.headers["connection"]) == (429, "close")


def test_who_may_pass_is_asked_once(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    authorise = AccessPolicy.authorise

    def note(policy: AccessPolicy, access: Access, headers: Headers) -> str:
        asked.append(access)
        return authorise(policy, access, headers)

    monkeypatch.setattr(AccessPolicy, "authorise", note)
    crowd.is_there = False
    with serving(app) as url, connected(url, ASKED) as client:
        assert read_reply(client).status == 200
    assert (asked, crowd.ahead) == (["read"], [0])


def test_those_let_in_since_the_loop_last_ran_are_counted(app: FastAPI, crowd: Crowd) -> None:
    """Heads that are read together see each other, and what is over is forgotten."""
    crowd.is_there = False
    refuse = app.state.refuse_early

    async def read_heads() -> list[bytes]:
        scopes = [
            {
                "type": "http",
                "method": "POST",
                "path": "/search",
                "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
                "state": {},
            }
            for _head in range(3)
        ]
        first = [refuse(scope, ()) for scope in scopes[:2]]
        await asyncio.sleep(0)
        return [*first, refuse(scopes[2], ())]

    assert asyncio.run(read_heads()) == [b"", b"", b""]
    assert crowd.ahead == [0, 1, 0]


def test_a_pool_counts_those_who_are_about_to_come() -> None:
    pool = WorkerPool("test", lambda: pytest.fail("nothing is done"), workers=1, capacity=2)
    pool.admit(ahead=2)
    with pytest.raises(Overloaded):
        pool.admit(ahead=3)
    pool.close()


def test_a_crowd_turned_away_is_logged_in_part(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(early_refusals, "LOGGED_A_SECOND", 3)
    caplog.set_level(logging.INFO, logger="quoth")
    seconds = list[Callable[[], None]]()
    monkeypatch.setattr(asyncio.SelectorEventLoop, "call_later", _keeping(seconds))
    with serving(app) as url, connected(url) as client:

        def ask(times: int) -> None:
            for _ in range(times):
                send(client, ASKED)
                assert read_reply(client).status == 429

        ask(8)
        (end_second,) = seconds
        end_second()
        ask(2)
    own = [each for each in caplog.records if each.name == "quoth.access"]
    told = [each.getMessage() for each in caplog.records if "turned away" in each.getMessage()]
    assert len(own) == 3 + 2
    assert told == ["5 more requests were turned away in a second for want of room"]


def _keeping(seconds: list[Callable[[], None]]) -> Callable[..., object]:
    """Keep what a second of refusals ends with, and let all else be called when it is due."""
    call_later = asyncio.SelectorEventLoop.call_later

    def keep(loop: asyncio.SelectorEventLoop, delay: float, call: Any, *given: Any) -> object:
        if getattr(call, "__name__", "") == "_end_second":
            seconds.append(call)
            return None
        return call_later(loop, delay, call, *given)

    return keep
