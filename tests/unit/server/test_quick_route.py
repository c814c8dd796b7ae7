"""Whatever is posted to a quick route, it is answered as FastAPI would answer it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server import quick_route
from quoth.server.quick_route import QuickRoute
from quoth.server.routes import create_app
from quoth.settings.server import MAX_BODY_BYTES

BODIES = (
    b'{"query": "owl"}',
    b'{"query": "owl", "k": 1, "where": ["year > 2000"], "distinct": false}',
    '{"query": "owl"}'.encode("utf-16"),
    b'{"query": "owl", "query": "raven"}',
    b'{"query": "\\ud800"}',
    b'{"query": "owl", "explain": "yes"}',
    b'{"query": "owl", "k": 1.0}',
    b'{"query": "owl", "k": NaN}',
    b'{"query": "owl", "where": ["year >"]}',
    b'{"query": "owl", "searcher": "dense"}',
    b'{"query": "owl", "offset": 999, "k": 100}',
    b'{"query": "owl", "nobody": 1}',
    b'{"query": "owl"',
    b"[" * 100_000,
    b'["owl"]',
    b'"owl"',
    b"null",
    b"\xff\xfe\xfd",
    b"",
    b" " * (MAX_BODY_BYTES + 1),
)
KINDS = ("application/json", "Application/JSON; charset=utf-8", "application/a/b+json", "text/json")
OWN = ("x-request-id", "content-length")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with Engine.open(tmp_path_factory.mktemp("made") / "birds.quoth") as engine:
        engine.add_documents(
            [
                Document("owl", {"title": ("Owl",), "text": ("An owl hunts.",)}, {"year": 2019}),
                Document("raven", {"text": ("A raven watches an owl.",)}),
            ]
        )
        with TestClient(create_app(engine), base_url="http://127.0.0.1") as client:
            yield client


def _told(client: TestClient, body: bytes, kind: str) -> tuple[int, dict[str, str], Any]:
    """Return what differs between no two answers to the same request."""
    # In pieces, so that no length is told and the whole of it is received.
    response = client.post("/search", content=iter((body,)), headers={"Content-Type": kind})
    told = response.json()
    told.pop("seconds", None)
    told.get("error", {}).pop("request_id", None)
    headers = {name: value for name, value in response.headers.items() if name not in OWN}
    return response.status_code, headers, told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", range(len(BODIES)))
def test_answers_are_those_of_fastapi(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, at: int, kind: str
) -> None:
    quick = _told(client, BODIES[at], kind)
    monkeypatch.setattr(quick_route, "_is_plain_post", lambda _scope: False)
    assert quick == _told(client, BODIES[at], kind)


def test_a_search_that_is_plainly_right_does_without_fastapi(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_given: object) -> None:
        raise AssertionError("FastAPI was asked")

    monkeypatch.setattr(APIRoute, "handle", never)
    status, _headers, told = _told(client, BODIES[0], KINDS[0])
    assert status == 200
    assert [hit["docid"] for hit in told["hits"]] == ["owl", "raven"]


def test_only_what_declares_a_body_is_read_here(client: TestClient) -> None:
    routes = [each for each in client.app.routes if isinstance(each, QuickRoute)]  # type: ignore[attr-defined]
    assert [each.path for each in routes if each._takes is not None] == ["/search"]
