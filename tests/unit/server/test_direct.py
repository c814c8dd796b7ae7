"""Searches that are served straight are answered as the application would answer them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response
from noted_access import noting_access

from quoth.engine.engine import Engine
from quoth.errors import Damaged
from quoth.records import Document
from quoth.server import direct
from quoth.server.access.keys import Keys, add_key
from quoth.server.errors import TookTooLong
from quoth.server.routes import create_app
from quoth.server.service import Service
from quoth.settings.server import ServerConfig

BASE = "http://127.0.0.1"
JSON = {"Content-Type": "application/json"}
DEEP = b'{"query": ' + b"[" * 100_000
BODIES: dict[str, tuple[bytes, dict[str, str]]] = {
    "a search": (b'{"query": "owl"}', JSON),
    "all there is": (
        b'{"query": "owl", "k": 3, "offset": 1, "where": ["year >= 1999"], "explain": true,'
        b' "searcher": "lexical", "rerank": false, "distinct": false}',
        JSON,
    ),
    "numbers as text": (b'{"query": "owl", "k": "3", "offset": 0.0}', JSON),
    "twice": (b'{"query": "cat", "query": "owl"}', JSON),
    "escapes": (b'{"query": "\\u006fwl"}', JSON),
    "half a character": (b'{"query": "\\ud83e owl"}', JSON),
    "UTF-16": ('{"query": "owl"}'.encode("utf-16"), JSON),
    "latin": ('{"query": "hibou \xe9"}'.encode("latin-1"), JSON),
    "nothing": (b"", JSON),
    "no JSON": (b'{"query": ', JSON),
    "no object": (b'["owl"]', JSON),
    "null": (b"null", JSON),
    "no query": (b"{}", JSON),
    "not known": (b'{"query": "owl", "owls": 1}', JSON),
    "too many": (b'{"query": "owl", "k": 5000}', JSON),
    "infinite": (b'{"query": "owl", "k": Infinity}', JSON),
    "deep": (DEEP, JSON),
    "deeper than is read here": (DEEP[:50_000], JSON),
    "too long": (json.dumps({"query": "owl " * 1_000}).encode(), JSON),
    "a wrong condition": (b'{"query": "owl", "where": ["year >>"]}', JSON),
    "an unknown searcher": (b'{"query": "owl", "searcher": "dense"}', JSON),
    "with a charset": (b'{"query": "owl"}', {"Content-Type": "application/json; charset=utf-8"}),
    "of another kind": (b'{"query": "owl"}', {"Content-Type": "application/x+json"}),
    "no kind": (b'{"query": "owl"}', {}),
    "plain text": (b'{"query": "owl"}', {"Content-Type": "text/plain"}),
    "compressed": (b'{"query": "owl", "explain": true}', {**JSON, "Accept-Encoding": "gzip"}),
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents(
            Document(f"d{at}", {"text": (f"An owl at dusk, {at}.",)}, {"year": 1998 + at})
            for at in range(8)
        )
        yield engine


@pytest.fixture
def app(engine: Engine) -> FastAPI:
    return create_app(engine)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=BASE) as client:
        yield client


def ask(client: TestClient, body: Any, headers: dict[str, str], *, straight: bool) -> Response:
    with pytest.MonkeyPatch.context() as patch:
        if not straight:
            patch.setattr(direct, "_is_plain", lambda _scope: False)
        own = {"X-Request-ID": "mine", "Accept-Encoding": "identity", **headers}
        return client.post("/search", content=body, headers=own)


def told(response: Response) -> tuple[int, dict[str, str], Any]:
    """Return a response without the times that it tells."""
    record = response.json()
    record.pop("seconds", None)
    headers = dict(response.headers)
    headers.pop("content-length")
    return response.status_code, headers, record


@pytest.mark.parametrize("name", BODIES)
def test_a_search_is_answered_as_the_application_would(client: TestClient, name: str) -> None:
    body, headers = BODIES[name]
    straight = ask(client, body, headers, straight=True)
    assert told(straight) == told(ask(client, body, headers, straight=False))
    assert ("content-encoding" in straight.headers) == (name == "compressed")


def test_so_it_is_where_its_length_is_not_said(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"query": '
        yield b'"owl"}'

    assert told(ask(client, pieces(), JSON, straight=True)) == told(
        ask(client, pieces(), JSON, straight=False)
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [(Damaged("the index is damaged"), 500), (TookTooLong("too long"), 503), (ValueError(), 500)],
)
def test_errors_are_told_and_logged_alike(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
) -> None:
    async def fail(_service: Service, _posted: object) -> bytes:
        raise error

    monkeypatch.setattr(Service, "search", fail)
    client = TestClient(create_app(engine), base_url=BASE)
    caplog.set_level(logging.INFO, logger="quoth")
    found = []
    for straight in (True, False):
        caplog.clear()
        response = ask(client, b'{"query": "owl"}', JSON, straight=straight)
        logged = [
            (each.name, each.levelname, each.getMessage().split(": Trace")[0])
            for each in caplog.records
            if each.name.startswith("quoth")
        ]
        found.append((told(response), logged))
    assert found[0] == found[1]
    assert found[0][0][0] == status


def test_most_of_the_application_is_not_asked(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the search is out of the ordinary."""

    async def serve(*_given: object) -> None:
        raise AssertionError("the application was asked")

    with TestClient(app, base_url=BASE) as client:
        with monkeypatch.context() as patched:
            patched.setattr(app.router, "middleware_stack", serve)
            assert client.post("/search", json={"query": "owl"}).status_code == 200
            assert client.post("/search", json={"query": "owl", "k": 0}).status_code == 500
        assert client.post("/search", json={"query": "owl", "k": 0}).status_code == 422


def test_nothing_is_served_straight_whose_guard_was_not_asked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pages of other origins may ask, nobody is asked early, and the route asks."""
    asked = noting_access(monkeypatch)
    read: list[object] = []
    monkeypatch.setattr(direct, "_read", read.append)
    app = create_app(engine, ServerConfig(origins=("https://example.org",)))
    with TestClient(app, base_url=BASE) as client:
        asked.clear()
        assert client.post("/search", json={"query": "owl"}).status_code == 200
    assert (asked, read) == (["read"], [])


def test_keys_and_hosts_are_asked_for(engine: Engine, tmp_path: Path) -> None:
    secret = add_key(tmp_path / "keys", "reader", "read", per_minute=2)
    observing = add_key(tmp_path / "keys", "watcher", "observe")
    app = create_app(engine, keys=Keys.read(tmp_path / "keys"))
    statuses = []
    with TestClient(app, base_url=BASE) as client:
        for each in ("", "guessed", observing, secret, secret, secret):
            headers = {"Authorization": f"Bearer {each}"} if each else {}
            statuses.append(
                client.post("/search", json={"query": "owl"}, headers=headers).status_code
            )
    assert statuses == [401, 401, 403, 200, 200, 429]
    with TestClient(create_app(engine), base_url="http://example.org") as client:
        assert client.post("/search", json={"query": "owl"}).status_code == 403


def test_a_search_is_counted_by_its_route(app: FastAPI) -> None:
    with TestClient(app, base_url=BASE) as client:
        assert client.post("/search", json={"query": "owl"}).status_code == 200
        text = client.get("/metrics").text
    assert 'quoth_requests_total{method="POST",route="/search",status="200"} 1' in text
