"""A server behind a proxy: whose word is believed, and paths under a prefix."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from listening import listening

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server.access.keys import Keys, add_key
from quoth.server.routes import create_app
from quoth.server.run import make_server
from quoth.settings.server import ACCESS_LOG, ServerConfig

CONFIG = ServerConfig(workers=1, proxies=("127.0.0.0/8",), path_prefix="/notes")
FORWARDED = {
    "X-Forwarded-For": "198.51.100.1, 203.0.113.7",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "docs.example",
}
MCP_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MCP_ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts.",)})])
    return folder


@contextmanager
def serve(collection: Path, config: ServerConfig, keys: Keys | None = None) -> Iterator[str]:
    """Serve a collection, writes allowed; gives its address."""
    with Engine.open(collection) as engine:
        app = create_app(engine, config, keys=keys, allow_writes=True, mcp=True)
        with listening(make_server(app, config)) as url:
            yield url


def ask(
    url: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], Any]:
    """Ask without following redirects; gives the status, the headers and the body."""
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **(headers or {})}
    opener = urllib.request.build_opener(_Stay)
    request = urllib.request.Request(url, data=data, headers=given)
    try:
        with opener.open(request, timeout=300) as response:
            found = response.status, dict(response.headers.items()), response.read()
    except urllib.error.HTTPError as error:
        with error:
            found = error.code, dict(error.headers.items()), error.read()
    status, heads, content = found
    is_json = heads.get("content-type", "").startswith("application/json")
    return status, heads, json.loads(content) if is_json else content


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_given: Any) -> None:
        return None


def test_everything_is_served_under_the_prefix_and_without(collection: Path) -> None:
    with serve(collection, replace(CONFIG, proxies=())) as url:
        for prefix in ("", "/notes"):
            for path in ("/", "/docs", "/limits", "/health/live", "/status"):
                assert ask(url + prefix + path)[0] == 200, prefix + path
            assert ask(f"{url}{prefix}/search", {"query": "owl"})[2]["hits"][0]["docid"] == "owl"
            assert ask(f"{url}{prefix}/documents/owl")[2]["docid"] == "owl"
            assert ask(f"{url}{prefix}/mcp", MCP_PING, MCP_ACCEPT)[0] == 200
        for path in ("/notesx/limits", "/notes/notes/limits", "/other/limits"):
            assert ask(url + path)[0] == 404
        described = ask(f"{url}/notes/openapi.json")[2]
        assert described["servers"] == [{"url": "/notes"}] and "/search" in described["paths"]


def test_the_prefix_alone_leads_to_the_page(collection: Path) -> None:
    with serve(collection, CONFIG) as url:
        status, headers, _body = ask(f"{url}/notes?a=b")
        assert status == 307 and headers["location"] == "/notes/?a=b"
        assert ask(f"{url}/notes/")[0] == 200
        assert ask(f"{url}/notes/limits/")[0] == 404  # nothing else is redirected


def test_a_prefix_opens_no_way_around_the_keys(collection: Path, tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    reading = {"Authorization": f"Bearer {add_key(path, 'reader', 'read')}"}
    document = {"documents": [{"docid": "new", "fields": {"text": "new"}}]}
    with serve(collection, CONFIG, Keys.read(path)) as url:
        assert ask(f"{url}/notes/limits")[0] == 200
        assert ask(f"{url}/notes/search", {"query": "owl"})[0] == 401
        assert ask(f"{url}/notes/search", {"query": "owl"}, reading)[0] == 200
        for way in ("/documents", "/notes/documents", "/%6eotes/documents"):
            assert ask(url + way, document, reading)[0] == 403, way
        for way in ("/notes/notes/documents", "//notes/documents", "/notes//documents"):
            assert ask(url + way, document, reading)[0] in (403, 404, 405), way
        assert ask(f"{url}/documents/new", None, reading)[0] == 404


@pytest.mark.parametrize("proxies", [(), ("10.0.0.0/8",), ("127.0.0.0/8",)])
def test_only_a_known_proxy_is_believed(
    collection: Path, caplog: pytest.LogCaptureFixture, proxies: tuple[str, ...]
) -> None:
    is_known = proxies == ("127.0.0.0/8",)
    config = replace(CONFIG, proxies=proxies, hosts=("docs.example",), path_prefix="")
    with caplog.at_level(logging.INFO, logger=ACCESS_LOG), serve(collection, config) as url:
        assert ask(f"{url}/limits", None, FORWARDED)[0] == 200
        foreign = ask(f"{url}/limits", None, {"X-Forwarded-Host": "evil.example"})
        assert foreign[0] == (403 if is_known else 200)
    record = next(each for each in caplog.records if each.name == ACCESS_LOG)
    assert record.__dict__["quoth"]["client"] == ("203.0.113.7" if is_known else "127.0.0.1")
