"""Keys, hosts and writes: who may do what, and what never shows up anywhere."""

from __future__ import annotations

import builtins
import io
import json
import logging
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from fastapi.testclient import TestClient

from quoth.engine.engine import Engine
from quoth.errors import ConfigError
from quoth.records import Document
from quoth.server.access.keys import Keys, add_key
from quoth.server.routes import create_app
from quoth.server.run import require_safe
from quoth.settings.server import ServerConfig

DOCUMENTS = {"documents": [{"docid": "new", "fields": {"text": "owl"}}]}
OPEN = ("/", "/docs", "/openapi.json", "/limits", "/health/live", "/assets/script.js")
CLOSED = ("/status", "/stats", "/metrics", "/report", "/documents/owl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts.",)})])
    return folder


@pytest.fixture
def engine(made: Path, tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(shutil.copytree(made, tmp_path / "birds.quoth")) as engine:
        yield engine


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """The keys by what they allow; the file is keys.jsonl."""
    path = tmp_path / "keys.jsonl"
    return {"read": add_key(path, "reader", "read"), "write": add_key(path, "writer", "write")}


@pytest.fixture
def guarded(engine: Engine, keys: dict[str, str], tmp_path: Path) -> TestClient:
    """A server with keys that takes documents, asked under any name."""
    known = Keys.read(tmp_path / "keys.jsonl")
    config = ServerConfig(workers=1)
    return TestClient(create_app(engine, config, keys=known, allow_writes=True))


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_others_are_listened_to_only_with_keys(
    host: str, keys: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="so keys are needed"):
        require_safe(ServerConfig(host=host), None)
    assert require_safe(ServerConfig(host=host), tmp_path / "keys.jsonl") is not None
    assert require_safe(ServerConfig(), None) is None
    assert keys


@pytest.mark.parametrize("path", CLOSED)
def test_reading_needs_a_key(guarded: TestClient, keys: dict[str, str], path: str) -> None:
    for headers in ({}, _bearer("wrong"), {"Authorization": keys["read"]}, _bearer("")):
        response = guarded.get(path, headers=headers)
        assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
    for key in keys.values():
        assert guarded.get(path, headers=_bearer(key)).status_code in (200, 404)
    assert guarded.post("/search", json={"query": "owl"}).status_code == 401
    found = guarded.post("/search", json={"query": "owl"}, headers=_bearer(keys["read"]))
    assert len(found.json()["hits"]) == 1


@pytest.mark.parametrize("path", OPEN)
def test_the_page_needs_none(guarded: TestClient, path: str) -> None:
    assert guarded.get(path).status_code == 200


def test_no_write_without_the_key(
    guarded: TestClient, engine: Engine, keys: dict[str, str]
) -> None:
    def write(headers: dict[str, str]) -> tuple[int, ...]:
        added = guarded.post("/documents", json=DOCUMENTS, headers=headers)
        removed = guarded.delete("/documents/owl", headers=headers)
        return added.status_code, removed.status_code

    assert write({}) == (401, 401)
    assert write(_bearer("wrong")) == (401, 401)
    assert write(_bearer(keys["read"])) == (403, 403)
    assert engine.docids() == ("owl",)
    assert write(_bearer(keys["write"])) == (200, 200)
    assert engine.docids() == ("new",)


@pytest.mark.parametrize("path", ["/documents", "/documents/", "//documents", "/documents/a/b"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_writes_are_off_unless_allowed(engine: Engine, method: str, path: str) -> None:
    client = TestClient(create_app(engine), base_url="http://127.0.0.1", follow_redirects=False)
    response = client.request(method, path, json=DOCUMENTS)
    assert response.status_code in (403, 404, 405)
    assert engine.docids() == ("owl",)


def test_a_key_to_write_writes_only_where_writes_are_allowed(
    engine: Engine, keys: dict[str, str], tmp_path: Path
) -> None:
    app = create_app(engine, keys=Keys.read(tmp_path / "keys.jsonl"))
    headers = _bearer(keys["write"])
    response = TestClient(app).post("/documents", json=DOCUMENTS, headers=headers)
    assert response.status_code == 403
    assert "--allow-writes" in response.json()["error"]["message"]


def test_nothing_is_parsed_before_the_key_is_known(guarded: TestClient) -> None:
    broken = guarded.post("/search", content=b"{", headers={"Content-Type": "application/json"})
    assert broken.status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost", 200),
        ("[::1]:8080", 200),
        ("[::1]", 200),
        ("LOCALHOST:1", 200),
        ("own.example:8080", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost@evil.example", 403),
        ("", 403),
    ],
)
def test_without_keys_only_own_names_are_answered_to(
    engine: Engine, host: str, status: int
) -> None:
    """A page elsewhere could otherwise make a browser ask us under its own name."""
    client = TestClient(create_app(engine, ServerConfig(hosts=("own.example",))))
    assert client.get("/limits", headers={"Host": host}).status_code == status


def test_a_form_of_another_site_cannot_write(engine: Engine) -> None:
    """A browser sends such without asking first, but never as application/json."""
    client = TestClient(create_app(engine, allow_writes=True), base_url="http://127.0.0.1")
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"Content-Type": kind, "Origin": "https://evil.example"}
        response = client.post("/documents", content=json.dumps(DOCUMENTS), headers=headers)
        assert response.status_code == 415, kind
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"}
    asked = client.options("/documents/owl", headers=preflight)
    assert asked.status_code == 405 and "access-control-allow-origin" not in asked.headers
    assert engine.docids() == ("owl",)


def test_logs_hold_no_key_and_no_query(
    guarded: TestClient, keys: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="quoth"):
        for key in (*keys.values(), "quoth_wrong"):
            asked = {"query": "a secret word"}
            guarded.post("/search?key=quoth_leaked", json=asked, headers=_bearer(key))
            guarded.get("/documents/a%22%0Ab", headers=_bearer(key))
    lines = [r.__dict__["quoth"] for r in caplog.records if r.name == "quoth.access"]
    statuses = [200, 400] * len(keys)
    assert [line["status"] for line in lines] == [*statuses, 401, 400]
    assert lines[1]["path"] == '/documents/a"\nb'
    assert sorted(lines[0]) == sorted(
        ("request_id", "client", "key", "method", "path", "status", "seconds")
    )
    assert [line["key"] for line in lines[::2]] == ["reader", "writer", ""]
    for secret in (*keys.values(), "quoth_wrong", "quoth_leaked", "a secret word"):
        assert secret not in caplog.text and secret not in str(lines)


def _noting(call: Callable[..., Any], opened: list[str]) -> Callable[..., Any]:
    def note(path: Any, *given: Any, **named: Any) -> Any:
        opened.append(str(path))
        return call(path, *given, **named)

    return note


def test_no_request_touches_a_file_of_its_choice(
    guarded: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names in requests look like paths; none may reach the file system."""
    opened: list[str] = []
    for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "stat")):
        monkeypatch.setattr(module, name, _noting(getattr(module, name), opened))
    names = ("../../etc/passwd", "/etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "file:///etc")
    for name in names:
        for path in ("/assets/", "/documents/", "/"):
            response = guarded.get(path + name, headers=_bearer(keys["write"]))
            assert response.status_code in (400, 404, 405) and "root:" not in response.text
        asked: dict[str, Any] = {"query": name, "where": [], "searcher": "auto"}
        assert guarded.post("/search", json=asked, headers=_bearer(keys["read"])).is_success
        removed = guarded.delete(f"/documents/{name}", headers=_bearer(keys["write"]))
        assert removed.status_code in (400, 404)
    assert opened and not any("etc" in path or "passwd" in path for path in opened)


def test_pickle_is_never_loaded(
    guarded: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object, **_named: object) -> NoReturn:
        raise AssertionError("pickle was used")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    headers = _bearer(keys["write"])
    assert guarded.post("/documents", json=DOCUMENTS, headers=headers).is_success
    assert guarded.post("/search", json={"query": "owl"}, headers=headers).is_success
