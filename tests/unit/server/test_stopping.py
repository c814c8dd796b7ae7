"""Work stops: when it takes too long, when its client has left, and when its turn never comes."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.errors import Interrupted
from quoth.interruption import check_interruption
from quoth.records import Document, SearchRequest
from quoth.server.errors import Overloaded, TookTooLong
from quoth.server.monitoring.timings import StageTimes
from quoth.server.routes import create_app
from quoth.server.workers.models import share_engine
from quoth.server.workers.pool import WorkerPool
from quoth.settings.server import ServerConfig

LONG = 300.0
"""Seconds after which a test gives up; none should take a tenth of it."""

ENOUGH = 1.0
"""Seconds in which a worker that is idle begins its job, on a busy machine, too."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts at dusk.",)})])
        yield engine


class Busy:
    """Work that looks up now and then, and would otherwise go on for ever."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def __call__(self, *_given: object, **_named: object) -> Any:
        self.begun.set()
        try:
            while not self.ended.wait(0.005):
                check_interruption()
        except Interrupted as error:
            self.error = error
            raise
        finally:
            self.ended.set()


def _pool(engine: Engine, **given: Any) -> WorkerPool:
    """Make a pool whose one worker has begun, so that its next job begins at once."""
    make = share_engine(engine, StageTimes())
    pool = WorkerPool("test", make, workers=1, capacity=9, **given)
    pool.submit(lambda _engine: None).result(LONG)
    return pool


def test_work_that_takes_too_long_stops_and_frees_its_worker(engine: Engine) -> None:
    pool, busy = _pool(engine), Busy()
    with pytest.raises(TookTooLong):
        asyncio.run(pool.run(busy, seconds=ENOUGH))
    assert busy.ended.wait(LONG) and isinstance(busy.error, Interrupted)
    assert asyncio.run(pool.run(lambda own: own.docids(), seconds=LONG)) == ("owl",)
    pool.close()


def test_writing_goes_on_when_nobody_waits_any_more(engine: Engine) -> None:
    pool, begun, free, done = _pool(engine), threading.Event(), threading.Event(), []

    def write(_engine: Engine) -> None:
        begun.set()
        assert free.wait(LONG)
        check_interruption()
        done.append("written")

    with pytest.raises(TookTooLong):
        asyncio.run(pool.run(write, seconds=ENOUGH, may_stop=False))
    free.set()
    pool.close()
    assert done == ["written"]


def test_a_job_whose_turn_does_not_come_in_time_is_refused(engine: Engine) -> None:
    """The pool knows nothing yet of how long jobs take, so it cannot foresee this."""
    pool, busy, begun = _pool(engine, patience=ENOUGH), Busy(), []

    async def crowd() -> list[Any]:
        first = asyncio.create_task(pool.run(busy, seconds=LONG))
        await asyncio.to_thread(busy.begun.wait, LONG)
        late = [pool.run(begun.append, seconds=LONG) for _job in range(5)]
        found = await asyncio.gather(*late, return_exceptions=True)
        busy.ended.set()
        await first
        return found

    found = asyncio.run(crowd())
    assert [type(each) for each in found] == [Overloaded] * 5
    assert begun == [] and pool.state.refused == 5 and pool.length == 0
    pool.close()


def test_a_pool_that_works_on_one_job_for_long_refuses_the_next_at_once(engine: Engine) -> None:
    pool, busy = _pool(engine, patience=0.2), Busy()
    job = pool.submit(busy)
    assert busy.begun.wait(LONG) and not busy.ended.wait(0.3)
    assert pool.would_refuse
    with pytest.raises(Overloaded):
        pool.submit(busy)
    busy.ended.set()
    job.result(LONG)
    pool.close()


def test_closing_stops_what_may_be_stopped(engine: Engine) -> None:
    pool, busy = _pool(engine), Busy()

    async def leave() -> None:
        waiting = asyncio.create_task(pool.run(busy, seconds=LONG))
        await asyncio.to_thread(busy.begun.wait, LONG)
        await asyncio.to_thread(pool.close)
        with pytest.raises(Interrupted):
            await waiting

    asyncio.run(leave())
    assert isinstance(busy.error, Interrupted)


@pytest.mark.parametrize(
    ("path", "body", "method"),
    [
        ("/search", b'{"query": "owl"}', "find"),
        ("/answer", b'{"question": "when?"}', "ask"),
        ("/answer", b'{"question": "when?", "stream": true}', "ask"),
    ],
    ids=["search", "answer", "streamed answer"],
)
def test_work_stops_when_its_client_has_left(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes, method: str
) -> None:
    busy = Busy()
    app = create_app(engine, ServerConfig(workers=1))
    monkeypatch.setattr(Engine, method, busy)
    statuses = asyncio.run(_leave_early(app, path, body, busy))
    assert busy.ended.wait(LONG) and isinstance(busy.error, Interrupted)
    assert statuses == []  # nobody is there to be answered


async def _leave_early(app: FastAPI, path: str, body: bytes, busy: Busy) -> list[int]:
    """Send a request, and hang up as soon as it is being worked on."""
    statuses: list[int] = []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        for message in messages:
            return message
        await asyncio.to_thread(busy.begun.wait, LONG)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": headers,
        "query_string": b"",
    }
    scope |= {"root_path": "", "scheme": "http", "raw_path": path.encode(), "http_version": "1.1"}
    scope |= {"asgi": {"version": "3.0", "spec_version": "2.3"}, "client": ("127.0.0.1", 9)}
    await asyncio.wait_for(app(scope, receive, send), LONG)
    return statuses


def test_searches_are_not_kept_waiting_by_questions(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy()
    monkeypatch.setattr(Engine, "ask", busy)
    app = create_app(engine, ServerConfig(workers=1))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asking = threading.Thread(
            target=client.post, args=("/answer",), kwargs={"json": {"question": "when?"}}
        )
        asking.start()
        assert busy.begun.wait(LONG)
        assert client.post("/search", json={"query": "owl"}).json()["hits"]
        busy.ended.set()
        asking.join(LONG)


def test_searches_are_not_kept_waiting_by_long_conditions(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, find = Busy(), Engine.find

    def look(self: Engine, request: SearchRequest) -> Any:
        return busy() if request.query == "slow" else find(self, request)

    monkeypatch.setattr(Engine, "find", look)
    hostile = {"query": "slow", "where": [" and ".join(["year > 1900"] * 20)]}
    app = create_app(engine, ServerConfig(workers=1))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asking = threading.Thread(target=client.post, args=("/search",), kwargs={"json": hostile})
        asking.start()
        assert busy.begun.wait(LONG)
        assert client.post("/search", json={"query": "owl"}).json()["hits"]
        busy.ended.set()
        asking.join(LONG)


def test_too_many_questions_are_refused_while_others_wait(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy()
    monkeypatch.setattr(Engine, "ask", busy)
    monkeypatch.setattr(Engine, "load_language_model", lambda _engine: None)
    app = create_app(engine, ServerConfig(workers=1, answer_patience_seconds=ENOUGH))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        _wait_until_ready(client)
        asking = threading.Thread(
            target=client.post, args=("/answer",), kwargs={"json": {"question": "when?"}}
        )
        asking.start()
        assert busy.begun.wait(LONG)
        for stream in (False, True):
            late = client.post("/answer", json={"question": "when?", "stream": stream})
            assert late.status_code == 429 and int(late.headers["retry-after"]) >= 1
            assert late.json()["error"]["kind"] == "Overloaded"
        busy.ended.set()
        asking.join(LONG)


def test_a_damaged_index_is_a_failure_of_the_server_until_it_is_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts at dusk.",)})])
        app = create_app(engine, ServerConfig(workers=2))
        with TestClient(app, base_url="http://127.0.0.1") as client:

            def search() -> tuple[int, str]:
                found = client.post("/search", json={"query": "owl"}).json()
                if "error" in found:
                    return 0, str(found["error"]["kind"])
                return len(found["hits"]), ""

            _wait_until_ready(client)
            assert search() == (1, "")
            before = client.get("/stats").json()["errors"]
            with Engine.open(folder) as other:  # a change, so that workers open the index again
                other.add_documents([Document("hawk", {"text": ("An owl is no hawk.",)})])
            for index in (folder / "lexical").glob("index-*"):
                shutil.rmtree(index)
            for _request in range(3):
                response = client.post("/search", json={"query": "owl"})
                assert response.status_code == 500, response.text
                assert response.json()["error"]["kind"] == "Damaged"
            assert client.get("/stats").json()["errors"] >= before + 3
            assert client.get("/health/live").status_code == 200
            assert _settles(lambda: client.get("/health/ready").status_code, 503)
            with Engine.open(folder) as other:
                other.verify(repair=True)
            assert search() == (2, "")
            assert _settles(lambda: client.get("/health/ready").status_code, 200)


def test_a_server_whose_workers_are_stuck_is_not_ready(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(engine, ServerConfig(workers=1, patience_seconds=ENOUGH))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        _wait_until_ready(client)
        busy = Busy()
        monkeypatch.setattr(Engine, "status", busy)
        asking = threading.Thread(target=client.get, args=("/status",))
        asking.start()
        assert busy.begun.wait(LONG)
        assert _settles(lambda: client.get("/health/ready").status_code, 503)
        assert client.get("/health/live").status_code == 200
        busy.ended.set()
        asking.join(LONG)
        assert _settles(lambda: client.get("/health/ready").status_code, 200)


def test_a_panic_of_a_library_is_an_error_and_the_worker_lives(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """As Rust's are."""

    def panic(*_given: object) -> Any:
        raise PanicException("index out of bounds")

    app = create_app(engine, ServerConfig(workers=1))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        _wait_until_ready(client)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "get", panic)
            assert client.get("/documents/owl").status_code == 500
        assert client.get("/documents/owl").status_code == 200


def _wait_until_ready(client: TestClient) -> None:
    assert _settles(lambda: client.get("/health/ready").status_code, 200)


def _settles(look: Any, wanted: object) -> bool:
    """Look until something is as wanted; what is kept for a second takes a second."""
    for _look in range(int(LONG / 0.05)):
        if look() == wanted:
            return True
        threading.Event().wait(0.05)
    return False
