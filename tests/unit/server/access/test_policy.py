"""Every route, method, spelling of a path and kind of key, against a table of what may happen.

Requests go to the application as a server would hand them over, so that no client tidies their
paths. Workers are stood in for by one that notes what it was asked for: whatever a path looks like,
nothing may be read without the right to read, or written without the right to write.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from starlette.routing import Route

from quoth.collection.store import Written
from quoth.engine.engine import Engine
from quoth.records import Document, Part, SearchRequest, ShownHits
from quoth.server.access.keys import Keys, add_key
from quoth.server.access.policy import GuardedRoute, declares, require_declared
from quoth.server.routes import create_app
from quoth.settings.server import ServerConfig

TABLE = {
    ("GET", "/"): "open",
    ("GET", "/assets/{name}"): "open",
    ("GET", "/docs"): "open",
    ("GET", "/openapi.json"): "open",
    ("GET", "/limits"): "open",
    ("GET", "/health/live"): "open",
    ("GET", "/health/ready"): "open",
    ("GET", "/stats"): "observe",
    ("GET", "/metrics"): "observe",
    ("GET", "/status"): "read",
    ("GET", "/report"): "read",
    ("GET", "/documents"): "read",
    ("GET", "/documents/{docid:path}"): "read",
    ("POST", "/search"): "read",
    ("POST", "/explain"): "read",
    ("POST", "/answer"): "read",
    ("POST", "/mcp"): "read",
    ("POST", "/documents"): "write",
    ("DELETE", "/documents"): "write",
    ("DELETE", "/documents/{docid:path}"): "write",
    ("GET", "/access"): "read",
    ("POST", "/files"): "write",
    ("GET", "/job"): "read",
    ("POST", "/job"): "write",
    ("DELETE", "/job"): "write",
}
"""What may be done, and what it takes; every other method of a path is refused."""

BODIES: Mapping[str, object] = {
    "/search": {"query": "owl"},
    "/explain": {"query": "owl", "docids": ["owl"]},
    "/answer": {"question": "When does the owl hunt?"},
    "/documents": {"documents": [{"docid": "new", "fields": {"text": "owl"}}]},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get", "Delete", "BREW")
CONTROL = ("%0A", "%0D", "%00", "%7F", "%C2%85", "%C0%AF", "%E0%80%AF")
SPELLINGS = ("%2F", "/", "//", ";", ";a=b", "%20", "%09", "?", ".", "/.", "/..", "%2E%2E", "%3F")
POWER = {"open": 0, "observe": 1, "read": 2, "write": 3}
Request = tuple[str, str, str]
"""A method, a path as it is sent, and the kind of key that the request carries."""

CREDENTIALS = ("none", "wrong", "expired", "observe", "read", "write")


@dataclass
class NotingWorker:
    """Stands in for the engine of a worker, and notes what it takes to be asked for so much."""

    asked: list[str] = field(default_factory=list)

    def close(self) -> None:
        pass

    def choose(self, searcher: str) -> str:
        return "lexical" if searcher == "auto" else searcher

    def find(self, request: SearchRequest) -> ShownHits:
        if request.query != "a":  # what the server asks itself, to know whether it is ready
            self.asked.append("read")
        return ShownHits((), "lexical")

    def status(self) -> dict[str, Any]:
        self.asked.append("read")
        return {}

    def explain(self, *_given: object, **_named: object) -> tuple[Part, ...]:
        self.asked.append("read")
        return (Part("lexical", 0.0),)

    def attention(self, *_given: object, **_named: object) -> tuple[None, ...]:
        return (None,)

    def document(self, _docid: str) -> Document:
        self.asked.append("read")
        return Document("owl", {})

    def add_documents(self, _documents: object) -> Written:
        self.asked.append("write")
        return Written(added=1)

    def remove(self, _docids: object) -> tuple[str, ...]:
        self.asked.append("write")
        return ()

    def load_language_model(self) -> None:
        pass

    def ask(self, *_given: object, **_named: object) -> Any:
        self.asked.append("read")
        raise ValueError("no model here")


@dataclass(frozen=True)
class Server:
    """An application, what its workers were asked for, and the keys to it."""

    app: FastAPI
    worker: NotingWorker
    keys: Mapping[str, str]
    writes: bool
    loop: asyncio.AbstractEventLoop

    def may(self, credential: str, access: str) -> bool:
        """Whether a request that carries this may do what needs that access."""
        if access == "write" and not self.writes:
            return False
        return not self.keys or POWER.get(credential, 0) >= POWER[access]

    def send(self, requests: Iterable[Request]) -> Iterator[tuple[Request, int, list[str]]]:
        """Send requests as they are; yields the status of each, and what workers were asked for."""

        async def send_all() -> list[tuple[Request, int, list[str]]]:
            return [(each, *await self._send(each)) for each in requests]

        yield from self.loop.run_until_complete(send_all())

    async def _send(self, request: Request) -> tuple[int, list[str]]:
        method, path, credential = request
        self.worker.asked.clear()
        plain = next((each for each in BODIES if path.startswith(each)), "/search")
        body = json.dumps(BODIES[plain]).encode()
        status = await _call(self.app, method, path, self.keys.get(credential, ""), body)
        return status, list(self.worker.asked)


async def _call(app: FastAPI, method: str, raw_path: str, key: str, body: bytes) -> int:
    path, _, query = raw_path.partition("?")
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    headers += [(b"accept", b"application/json, text/event-stream")]
    headers += [(b"authorization", f"Bearer {key}".encode())] if key else []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    statuses = []
    answered = asyncio.Event()
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        for message in messages:
            return message
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await asyncio.wait_for(app(scope, receive, send), 30)
    answered.set()
    (status,) = statuses
    return int(status)


def _make(tmp_path: Path, *, has_keys: bool, writes: bool) -> Iterator[Server]:
    worker = NotingWorker()
    path = tmp_path / "keys.jsonl"
    secrets = {
        name: add_key(path, name, name)  # type: ignore[arg-type]
        for name in ("observe", "read", "write")
    }
    secrets["expired"] = add_key(path, "expired", "write", expires="2020-01-01T00:00:00Z")
    secrets["wrong"] = "quoth_wrong"
    with pytest.MonkeyPatch.context() as patch, Engine.open(tmp_path / "x.quoth") as engine:
        patch.setattr("quoth.server.service.share_engine", lambda *_given: lambda: worker)
        app = create_app(
            engine,
            ServerConfig(workers=1),
            keys=Keys.read(path) if has_keys else None,
            allow_writes=writes,
            mcp=True,
        )
        with _started(app) as loop:
            yield Server(app, worker, secrets if has_keys else {}, writes, loop)


@contextlib.contextmanager
def _started(app: FastAPI) -> Iterator[asyncio.AbstractEventLoop]:
    """Start an application in a loop; one task does so and stops it, as task groups ask for."""
    ready, over = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            ready.set()
            await over.wait()

    async def wait_for_start(life: asyncio.Task[None]) -> None:
        started = asyncio.ensure_future(ready.wait())
        await asyncio.wait([life, started], return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set(), life

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        life = loop.create_task(live())
        loop.run_until_complete(wait_for_start(life))
        yield loop
        over.set()
        loop.run_until_complete(life)


KINDS = ("keys", "keys, writes off", "no keys", "no keys, writes off")


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Make each kind of server once: requests leave nothing behind but what workers note."""
    has_keys, writes = not request.param.startswith("no"), not request.param.endswith("off")
    yield from _make(tmp_path_factory.mktemp("server"), has_keys=has_keys, writes=writes)


def _path_of(route: str) -> str:
    return route.replace("{name}", "script.js").replace("{docid:path}", "owl")


def test_the_table_has_every_route(server: Server) -> None:
    found = set()
    for route in server.app.routes:
        found |= {(method, route.path) for method in route.methods}
    assert found == set(TABLE)
    for route in server.app.routes:
        accesses = {access for (_method, path), access in TABLE.items() if path == route.path}
        assert route.access in accesses


def test_each_route_serves_whom_it_should(server: Server) -> None:
    named = {_path_of(route) + "?docid=owl": route for _method, route in TABLE}
    paths = {route: path for path, route in named.items()}
    asked_for = [(method, paths[route], who) for method, route in TABLE for who in CREDENTIALS]
    for (method, path, credential), status, asked in server.send(asked_for):
        if server.may(credential, TABLE[method, named[path]]):
            assert status not in (400, 401, 403, 405, 429), (method, path, credential)
        elif server.keys and credential in ("none", "wrong", "expired"):
            assert (status, asked) == (401, []), (method, path, credential)
        else:
            assert (status, asked) == (403, []), (method, path, credential)


@pytest.mark.parametrize("server", ["keys", "no keys, writes off"], indirect=True, scope="module")
@pytest.mark.parametrize("route", sorted({route for _method, route in TABLE}))
def test_no_spelling_of_a_path_opens_a_route(server: Server, route: str) -> None:
    plain = _path_of(route)
    spelled = [plain + end for end in (*CONTROL, *SPELLINGS)]
    spelled += [
        "/" + plain,
        plain.upper(),
        plain.replace("/", "%2F"),
        f"/.{plain}",
        f"/x/..{plain}",
    ]
    spelled += [f"/{end}{plain}" for end in CONTROL]
    spelled = [path + "?docid=owl" for path in spelled]
    methods, keys = ("GET", "POST", "DELETE"), ("none", "read") if server.keys else ("none",)
    tried = itertools.product(methods, spelled, keys)
    for (method, path, credential), status, asked in server.send(tried):
        for access in asked:
            assert server.may(credential, access), (method, path, credential, status)
        if any(each in path for each in CONTROL):
            assert (status, asked) == (400, []), (method, path, credential)


def test_other_methods_are_refused(server: Server) -> None:
    routes = sorted({route for _method, route in TABLE})
    tried = [
        (method, _path_of(route), credential)
        for method, route, credential in itertools.product(METHODS, routes, CREDENTIALS)
        if (method, route) not in TABLE
    ]
    for request, status, asked in server.send(tried):
        assert asked == [] and status in (401, 403, 405), request


def test_a_route_that_declares_nothing_is_refused() -> None:
    app = FastAPI()
    app.router.route_class = GuardedRoute
    with pytest.raises(TypeError, match="declares no access"):

        @app.get("/forgotten")
        async def forgotten() -> None: ...

    @app.get("/known")
    @declares("read")
    async def known() -> None: ...

    with pytest.raises(TypeError, match="is not guarded"):
        require_declared(app.routes)  # FastAPI's own, such as /openapi.json

    def plain(_request: object) -> None: ...

    with pytest.raises(TypeError, match="/plain is not guarded"):
        require_declared([Route("/plain", plain)])
