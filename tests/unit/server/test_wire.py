"""Small print of HTTP: preflights, content types, limits by key, and what the description says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server.access.keys import Keys, add_key, revoke_key, rotate_key
from quoth.server.routes import create_app
from quoth.settings.server import ServerConfig

ORIGIN = "https://notes.example"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts.",)})])
        yield engine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of keys, with one to read."""
    path = tmp_path / "keys.jsonl"
    add_key(path, "other", "read")
    return path


def _client(engine: Engine, path: Path, **given: Any) -> TestClient:
    config = ServerConfig(workers=1, **given)
    return TestClient(create_app(engine, config, keys=Keys.read(path), mcp=True))


def _search(client: TestClient, key: str) -> Any:
    headers = {"Authorization": f"Bearer {key}"}
    return client.post("/search", json={"query": "owl"}, headers=headers)


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
def test_assistants_are_told_how_the_protocol_is_spoken(
    engine: Engine, path: Path, method: str
) -> None:
    key = path.with_name("reading.jsonl")
    headers = {"Authorization": f"Bearer {add_key(key, 'assistant', 'read')}"}
    headers["Accept"] = "application/json, text/event-stream"
    with _client(engine, key) as client:
        response = client.request(method, "/mcp", headers=headers)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["error"]["kind"] == "MethodNotAllowed"


def test_preflights_need_no_key_where_the_origin_is_allowed(engine: Engine, path: Path) -> None:
    client = _client(engine, path, origins=(ORIGIN,))
    headers = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    allowed = client.options("/search", headers={**headers, "Origin": ORIGIN})
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == ORIGIN
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    other = client.options("/search", headers={**headers, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    refused = client.post("/search", json={"query": "owl"}, headers={"Origin": ORIGIN})
    assert refused.status_code == 401  # and the page may read why
    assert refused.headers["access-control-allow-origin"] == ORIGIN


@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonp", "multipart/form-data"])
def test_a_body_of_another_kind_is_refused(engine: Engine, kind: str) -> None:
    client = TestClient(create_app(engine), base_url="http://127.0.0.1")
    headers = {"Content-Type": kind} if kind else {}
    response = client.post("/search", content=b'{"query": "owl"}', headers=headers)
    assert response.status_code == 415
    assert response.json()["error"]["kind"] == "UnsupportedMediaType"
    assert "application/json" in response.json()["error"]["message"]
    known = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post("/search", content=b'{"query": "owl"}', headers=known).status_code == 200


def test_the_description_tells_open_routes_from_others(engine: Engine, path: Path) -> None:
    described = _client(engine, path).get("/openapi.json").json()
    assert described["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    is_open = {
        (method, route): operation["security"] == []
        for route, operations in described["paths"].items()
        for method, operation in operations.items()
    }
    assert {each for each, value in is_open.items() if value} == {
        ("get", "/limits"),
        ("get", "/health/live"),
        ("get", "/health/ready"),
    }
    search = described["paths"]["/search"]["post"]["responses"]
    assert {"200", "400", "401", "403", "413", "415", "422", "429", "500", "503"} <= set(search)
    live = described["paths"]["/health/live"]["get"]["responses"]
    assert not {"401", "404", "415", "422", "429"} & set(live)


def test_keys_are_told_apart_and_followed_without_a_restart(engine: Engine, path: Path) -> None:
    old = add_key(path, "old", "read", expires="2020-01-31T00:00:00Z")
    mine = add_key(path, "mine", "read")
    watcher = add_key(path, "watcher", "observe")
    client = _client(engine, path)

    def kind(key: str) -> str:
        response = _search(client, key)
        return str(response.json().get("error", {}).get("kind", response.status_code))

    assert client.post("/search", json={"query": "owl"}).json()["error"]["kind"] == "KeyRequired"
    assert [kind(old), kind("quoth_x"), kind(mine)] == ["KeyExpired", "KeyUnknown", "200"]
    assert kind(watcher) == "NotAllowed"
    stats = client.get("/stats", headers={"Authorization": f"Bearer {watcher}"})
    assert stats.status_code == 200
    new = rotate_key(path, "mine")
    assert [kind(mine), kind(new)] == ["KeyUnknown", "200"]
    revoke_key(path, "mine")
    assert kind(new) == "KeyUnknown"


def test_a_key_is_used_no_more_often_than_it_may(engine: Engine, path: Path) -> None:
    slow = add_key(path, "slow", "read", per_minute=3)
    other = add_key(path, "usual", "read")
    client = _client(engine, path, requests_per_minute=5)
    assert [_search(client, slow).status_code for _request in range(4)] == [200, 200, 200, 429]
    refused = _search(client, slow)
    assert refused.json()["error"]["kind"] == "RateLimited"
    assert 1 <= int(refused.headers["retry-after"]) <= 20
    assert [_search(client, other).status_code for _request in range(6)] == [200] * 5 + [429]


def test_metrics_have_one_series_for_all_made_up_methods(engine: Engine) -> None:
    client = TestClient(create_app(engine), base_url="http://127.0.0.1")
    for number in range(30):
        client.request(f"BREW{number}", "/limits")
    exposed = client.get("/metrics").text
    counted = [line for line in exposed.splitlines() if line.startswith("quoth_requests_total{")]
    assert len(counted) == 1 and 'method="other"' in counted[0]
    assert counted[0].endswith(" 30")
