"""Whoever is refused anyway is answered by the connection, as the application would answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi import FastAPI
from listening import listening
from noted_access import noting_access
from small_server import WIRES, Wire
from wire import Reply, connected, post, read_last_reply, read_reply, send

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server import early_refusals
from quoth.server.access.keys import Keys, add_key
from quoth.server.connections.httptools_connection import HttpToolsConnection
from quoth.server.early_refusals import EarlyRefusals
from quoth.server.errors import (
    KeyRequired,
    NotAllowed,
    Overloaded,
    RateLimited,
    RequestError,
    TookTooLong,
    TooLarge,
)
from quoth.server.middleware import complete_headers, error_response
from quoth.server.routes import create_app
from quoth.server.run import make_server
from quoth.server.service import Service
from quoth.server.workers.pool import WorkerPool
from quoth.settings.server import ServerConfig

JSON = "Content-Type: application/json"
ASKED = post("/search", b'{"query": "owl"}', JSON)
METRICS = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
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
    served = app.state.early
    replies = []
    for early in (served, None):
        app.state.early = early
        with serving(app) as url:
            for each in asked:
                with connected(url, each) as client:
                    replies.append(without_own(read_reply(client)))
    assert [status for status, _headers, _message in replies] == [429, 403, 415, 413] * 2
    assert replies[:4] == replies[4:]


def test_every_refusal_has_an_id_of_its_own(app: FastAPI, crowd: Crowd) -> None:
    with serving(app) as url, connected(url) as client:
        found = []
        for _time in range(20):
            send(client, ASKED)
            reply = read_reply(client)
            assert reply.error()["request_id"] == reply.headers["x-request-id"]
            found.append(reply.headers["x-request-id"])
    assert len(set(found)) == 20
    assert {len(each) for each in found} == {16}


def test_a_client_may_name_its_request(app: FastAPI, crowd: Crowd) -> None:
    named = ["a", "of-the_client.7", "x" * 64, "x" * 65, "no id"]
    with serving(app) as url, connected(url) as client:
        for name in named * 2:
            send(client, ASKED.replace(b"Host", b"X-Request-ID: %b\r\nHost" % name.encode()))
            reply = read_reply(client)
            found = reply.headers["x-request-id"]
            assert reply.error()["request_id"] == found
            assert (found == name) == (name in named[:3])
            assert len(found) == len(name if name in named[:3] else "0123456789abcdef")


ERRORS = [
    *(Overloaded("too many wait", retry_seconds=each) for each in (0.1, 1.0, 1.2, 7.0, 900.0)),
    Overloaded("a message that differs"),
    RateLimited("the key 'a' allows 2 requests a minute; wait 3.5 seconds", retry_seconds=3.5),
    NotAllowed("this server does not answer to 'Stra\N{LATIN SMALL LETTER SHARP S}e\\x7f'"),
    KeyRequired('a key is needed: send the header "Authorization: Bearer KEY"'),
    TooLarge("the body is longer than 8 bytes"),
    TookTooLong("too long"),
]
DEFAULTS = ((b"date", b"Thu, 01 Jan 2026 00:00:00 GMT"), (b"via", b"a"))


def test_a_response_from_a_template_is_the_one_that_is_written_anew() -> None:
    responses = early_refusals._Responses()
    for defaults in (DEFAULTS, (), DEFAULTS[1:]):
        for request_id in ("0123456789abcdef", "a", "fedcba9876543210", "x" * 64):
            for error in ERRORS * 2:
                written = responses.write(error, request_id, defaults)
                assert written == written_anew(error, request_id, defaults)


def test_templates_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_refusals, "_MOST_TEMPLATES", 3)
    responses = early_refusals._Responses()
    for number in range(10):
        error = NotAllowed(f"not {number}")
        assert responses.write(error, "id", ()) == written_anew(error, "id", ())
        assert len(responses._templates) <= 3


def written_anew(
    error: RequestError, request_id: str, defaults: tuple[tuple[bytes, bytes], ...]
) -> bytes:
    """Return a response as the application and the connection would write it together."""
    own, body = error_response(error.status, error, request_id)
    headers = (*defaults, *complete_headers(own, request_id))
    lines = [b"%b: %b" % header for header in headers]
    first = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()
    return b"\r\n".join([first, *lines, b"", body])


ASIDE = [
    ASKED.replace(b"Host: 127.0.0.1", b"Host: example.org"),
    ASKED.replace(b"application/json", b"text/plain"),
    ASKED.replace(b"Content-Length: 16", b"Content-Length: 8388609"),
    ASKED.replace(JSON.encode() + b"\r\n", b""),
    ASKED.replace(b"/search", b"/explain"),
]


def test_a_head_that_passed_lets_no_other_pass(app: FastAPI, crowd: Crowd) -> None:
    """Whether alone, or after one that differs in what decides, it is answered alike."""
    with serving(app) as url:
        replies = []
        for before in ([], [ASKED, ASKED]):
            for each in ASIDE:
                with connected(url) as client:
                    for one in before:
                        send(client, one)
                        assert read_reply(client).status == 429
                    send(client, each)
                    replies.append(without_own(read_reply(client)))
    assert [status for status, _headers, _message in replies] == [403, 415, 413, 415, 429] * 2
    assert replies[: len(ASIDE)] == replies[len(ASIDE) :]


def test_heads_that_are_alike_are_judged_once(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = noting_access(monkeypatch)
    with serving(app) as url, connected(url) as client:
        for number in range(5):
            body = b'{"query": "%b"}' % (b"o" * number)
            send(client, post("/search", body, JSON, f"X-Request-ID: number-{number}"))
            assert read_reply(client).status == 429
    assert (asked, len(crowd.ahead)) == (["read"], 5)


def test_a_key_is_asked_for_each_time(
    tmp_path: Path, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = noting_access(monkeypatch)
    secret = add_key(tmp_path / "keys", "reader", "read", per_minute=3)
    with Engine.open(tmp_path / "birds.quoth") as engine:
        app = create_app(engine, keys=Keys.read(tmp_path / "keys"))
        own = ASKED.replace(b"Host", f"Authorization: Bearer {secret}\r\nHost".encode())
        unknown = own.replace(secret.encode(), b"quoth_guessed")
        with serving(app) as url, connected(url) as client:
            told = []
            for each in (own, ASKED, own, unknown, ASKED, own, own):
                send(client, each)
                told.append((read_reply(client)).error()["kind"])
    waits, lacks = "Overloaded", "KeyRequired"
    assert told == [waits, lacks, waits, "KeyUnknown", lacks, waits, "RateLimited"]
    assert len(asked) == 7


# Heads that are known ----------------------------------------------------------------------------


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Note of which requests the head is parsed, by their paths."""
    found: list[bytes] = []
    complete = HttpToolsConnection.on_headers_complete

    def note(connection: HttpToolsConnection) -> None:
        found.append(connection.url)
        complete(connection)

    monkeypatch.setattr(HttpToolsConnection, "on_headers_complete", note)
    return found


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_known_head_is_refused_unparsed_and_answered_alike(
    app: FastAPI, crowd: Crowd, parsed: list[bytes], loop: str
) -> None:
    with serving(app, loop=loop) as url:
        replies = []
        with connected(url) as client:
            for number in range(5):
                send(client, ASKED.replace(b"owl", b"%03d" % number))
                replies.append(without_own(read_reply(client)))
        with connected(url, METRICS) as client:
            told = read_reply(client).body.decode()
    assert [each == replies[0] for each in replies] == [True] * 5
    assert parsed == [b"/search", b"/search", b"/metrics"]  # first on its connection, and at rest
    assert 'quoth_requests_total{method="POST",route="/search",status="429"} 5' in told
    assert 'quoth_errors_total{kind="Overloaded"} 5' in told


def test_a_known_head_is_parsed_where_there_is_room(
    app: FastAPI, crowd: Crowd, parsed: list[bytes]
) -> None:
    with serving(app) as url, connected(url) as client:
        for is_there in (True, True, True, False, True, False):
            crowd.is_there = is_there
            send(client, ASKED)
            reply = read_reply(client)
            assert reply.status == (429 if is_there else 200)
            assert is_there or b"owl" in reply.body
    assert (crowd.ahead, len(parsed)) == ([0] * (6 + 2), 4)  # two knew their head, and had room


@pytest.mark.parametrize("path", ["/search", "/explain"])
def test_a_known_head_is_refused_without_being_judged_again(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    asked = ASKED.replace(b"/search", path.encode())
    with serving(app) as url, connected(url) as client:
        for _time in range(3):  # parsed, parsed at rest, and known
            send(client, asked)
            first = read_reply(client)
        monkeypatch.setattr(EarlyRefusals, "refuse", None)
        replies = []
        for _time in range(3):
            send(client, asked)
            replies.append(read_reply(client))
    assert [without_own(each) for each in replies] == [without_own(first)] * 3
    assert len({each.headers["x-request-id"] for each in replies}) == 3


def test_a_known_head_that_may_not_pass_never_does(app: FastAPI, crowd: Crowd) -> None:
    with serving(app) as url:
        for each in (ASIDE[0], ASIDE[1], ASIDE[3]):  # whose bodies are there
            with connected(url) as client:
                statuses = set()
                for _time in range(5):
                    send(client, each)
                    statuses.add(read_reply(client).status)
                assert statuses <= {403, 415} and len(statuses) == 1


def test_heads_that_are_known_fill_no_memory(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_refusals, "_MOST_HEADS", 3)
    with serving(app) as url, connected(url) as client:
        for number in range(8):
            for _time in range(3):
                send(client, post("/search", b"{}", JSON, f"Accept: a/{number}"))
                assert read_reply(client).status == 429
    assert len(app.state.early._judged) <= 3


def test_whoever_is_refused_is_counted_and_never_becomes_a_task(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(app) as url:
        with monkeypatch.context() as patched, connected(url) as client:
            patched.setattr("quoth.server.middleware.Middleware.__call__", None)
            for _time in range(2):
                send(client, ASKED)
                assert read_reply(client).status == 429
        with connected(url, METRICS) as client:
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
    asked = noting_access(monkeypatch)
    crowd.is_there = False
    with serving(app) as url, connected(url, ASKED) as client:
        assert read_reply(client).status == 200
    assert (asked, crowd.ahead) == (["read"], [0])


def test_those_let_in_since_the_loop_last_ran_are_counted(app: FastAPI, crowd: Crowd) -> None:
    """Heads that are read together see each other, and what is over is forgotten."""
    crowd.is_there = False
    refuse = app.state.early.refuse

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


def test_a_crowd_is_gathered_and_others_are_not(
    app: FastAPI, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_refusals, "LOGGED_A_SECOND", 3)
    monkeypatch.setattr(early_refusals, "_TOGETHER", 2)
    waited = list[int]()
    wait = EarlyRefusals._wait_for_more

    def count(early: EarlyRefusals) -> None:
        waited.append(early._refused_together)
        wait(early)

    monkeypatch.setattr(EarlyRefusals, "_wait_for_more", count)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "call_later", _keeping([]))
    with serving(app) as url, connected(url) as client:
        for _time in range(3):
            send(client, ASKED)
            assert read_reply(client).status == 429
        crowd.is_there = False
        send(client, ASKED)
        assert read_reply(client).status == 200
        assert waited == []  # three are no crowd, and others are none of it
        crowd.is_there = True
        for _time in range(4):
            send(client, ASKED)
            assert read_reply(client).status == 429
    assert waited == [1] * 4


def test_a_key_that_is_used_too_often_keeps_nobody_waiting(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = app.state.early
    monkeypatch.setattr(early, "_is_logged", lambda: False)
    for error, number in (
        (RateLimited("often"), 0),
        (TookTooLong("long"), 0),
        (Overloaded("."), 1),
    ):
        scope = {"method": "POST", "path": "/search", "state": {}}
        monkeypatch.setattr(asyncio, "get_running_loop", Mock())
        early._note(scope, error, "id", begun=0.0)
        assert early._refused_together == number


def _keeping(seconds: list[Callable[[], None]]) -> Callable[..., object]:
    """Keep what a second of refusals ends with, and let all else be called when it is due."""
    call_later = asyncio.SelectorEventLoop.call_later

    def keep(loop: asyncio.SelectorEventLoop, delay: float, call: Any, *given: Any) -> object:
        if getattr(call, "__name__", "") == "_end_second":
            seconds.append(call)
            return None
        return call_later(loop, delay, call, *given)

    return keep
