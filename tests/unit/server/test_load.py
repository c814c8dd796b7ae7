"""Many requests at a time: turned away in time, batched, right, and finished at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from noted_access import noting_access

from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server.access.policy import GuardedRoute
from quoth.server.errors import Overloaded, TookTooLong
from quoth.server.monitoring.timings import StageTimes, quantile
from quoth.server.routes import create_app
from quoth.server.service import Service
from quoth.server.workers.models import share_engine
from quoth.server.workers.pool import WorkerPool
from quoth.settings.server import ServerConfig

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents(
            Document(f"d{at}", {"text": (f"owl number {at} of many, word{at % 7}",)})
            for at in range(40)
        )
        yield engine


@pytest.fixture
def pool(engine: Engine) -> Iterator[WorkerPool]:
    """One worker; two may wait."""
    pool = WorkerPool("test", share_engine(engine, StageTimes()), workers=1, capacity=2)
    yield pool
    pool.close()


class Block:
    """Work that begins, then waits until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.free = threading.Event()

    def __call__(self, _engine: Engine) -> str:
        self.begun.set()
        assert self.free.wait(300)
        return "done"


def test_a_wait_that_would_be_too_long_is_refused_before_the_queue_is_full(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 50.0])  # the first job takes 50 seconds: 5 are usual then
    pool = WorkerPool(
        "test", share_engine(engine, StageTimes()), workers=1, capacity=9, patience=12.0
    )
    with monkeypatch.context() as patched:
        patched.setattr("quoth.server.workers.pool.monotonic", lambda: next(clock))
        assert pool.submit(lambda _engine: "slow").result() == "slow"
    block = Block()
    futures = [pool.submit(block) for _job in range(3)]  # one is worked on, two wait 5 and 10 s
    with pytest.raises(Overloaded):
        pool.submit(block)
    block.free.set()
    assert [future.result() for future in futures] == ["done"] * 3
    pool.close()


def test_what_does_not_fit_the_queue_is_refused_until_it_has_room(pool: WorkerPool) -> None:
    block = Block()
    futures = [pool.submit(block) for _job in range(3)]
    assert block.begun.wait(300) and pool.length == 2
    with pytest.raises(Overloaded):
        pool.submit(block)
    block.free.set()
    assert [future.result(300) for future in futures] == ["done"] * 3
    assert pool.submit(lambda _engine: 5).result(300) == 5
    assert pool.length == 0


def test_what_waits_too_long_never_begins(pool: WorkerPool) -> None:
    block, begun = Block(), []
    first = pool.submit(block)
    with pytest.raises(TookTooLong, match=r"within 0\.01 seconds"):
        asyncio.run(pool.run(begun.append, seconds=0.01))
    assert pool.length == 0  # its place is free again
    block.free.set()
    first.result(300)
    pool.submit(lambda _engine: None).result(300)
    assert begun == []


def test_errors_of_work_are_passed_on_and_the_worker_lives(pool: WorkerPool) -> None:
    def fail(_engine: Engine) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        asyncio.run(pool.run(fail, seconds=30))
    assert asyncio.run(pool.run(lambda engine: len(engine.docids()), seconds=30)) == 40


def test_closing_finishes_what_was_taken_on(engine: Engine) -> None:
    pool = WorkerPool("test", share_engine(engine, StageTimes()), workers=1, capacity=2)
    block = Block()
    futures = [pool.submit(block) for _job in range(3)]
    closing = threading.Thread(target=pool.close)
    closing.start()
    block.free.set()
    closing.join(300)
    assert [future.result(0) for future in futures] == ["done"] * 3


def test_each_worker_has_an_engine_of_its_own(engine: Engine) -> None:
    pool = WorkerPool("test", share_engine(engine, StageTimes()), workers=3, capacity=3)
    barrier = threading.Barrier(3)

    def work(own: Engine) -> tuple[int, Any]:
        barrier.wait(300)  # so that no worker does two
        return id(own), own._models

    found = [future.result(300) for future in [pool.submit(work) for _job in range(3)]]
    pool.close()
    assert len({number for number, _models in found}) == 3
    assert all(models is found[0][1] for _number, models in found)


def test_an_overloaded_server_says_so_and_recovers(engine: Engine) -> None:
    app = create_app(engine, ServerConfig(workers=1, queue=1, patience_seconds=300))
    block = Block()
    original = Engine.status
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "status", lambda self: {"said": block(self)})
        client = TestClient(app, base_url="http://127.0.0.1")
        with client, ThreadPoolExecutor(4) as threads:
            while client.get("/health/ready").status_code != 200:
                threading.Event().wait(0.01)
            waiting = [threads.submit(client.get, "/status") for _request in range(4)]
            refused = [next_done(waiting) for _request in range(2)]
            for response in refused:
                assert response.status_code == 429 and int(response.headers["retry-after"]) >= 1
                assert response.json()["error"]["kind"] == "Overloaded"
            unread = client.post("/search", content=b"{", headers=JSON)  # refused before it is read
            assert unread.status_code == 429 and unread.headers["retry-after"]
            assert client.get("/stats").json()["queue"]["length"] == 1
            assert client.get("/health/live").status_code == 200
            block.free.set()
            assert [future.result(300).status_code for future in waiting] == [200, 200]
            patch.setattr(Engine, "status", original)
            assert client.get("/status").json()["documents"] == 40
            assert client.get("/stats").json()["queue"]["length"] == 0


def next_done(waiting: list[Any]) -> Any:
    """Take out the first that is done."""
    while True:
        for future in waiting:
            if future.done():
                waiting.remove(future)
                return future.result()
        threading.Event().wait(0.005)


def test_a_crowd_is_refused_before_it_is_routed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_service: Service, _ahead: int) -> None:
        raise Overloaded("too many requests are waiting", retry_seconds=2.5)

    def route(*_arguments: object) -> None:
        raise AssertionError("it was routed")

    monkeypatch.setattr(Service, "admit_search", refuse)
    with TestClient(create_app(engine), base_url="http://127.0.0.1") as client:
        with monkeypatch.context() as patched:
            patched.setattr(GuardedRoute, "matches", route)
            refused = client.post("/search", json={"query": "owl"})
        told = client.get("/metrics").text
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "3")
    assert refused.json()["error"]["request_id"] == refused.headers["X-Request-ID"]
    assert refused.headers["Cache-Control"] == "no-store"
    assert 'route="/search",status="429"' in told.replace(" ", "")


def test_a_request_that_is_served_is_authorised_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = noting_access(monkeypatch)
    for origins in ((), ("https://example.org",)):
        config = ServerConfig(origins=origins)
        with TestClient(create_app(engine, config), base_url="http://127.0.0.1") as client:
            asked.clear()
            assert client.post("/search", json={"query": "owl"}).status_code == 200
            assert asked == ["read"]


def test_a_request_that_takes_too_long_is_answered_503(engine: Engine) -> None:
    app = create_app(engine, ServerConfig(workers=1, timeout_seconds=1.0))
    block = Block()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "status", lambda self: {"said": block(self)})
        response = TestClient(app, base_url="http://127.0.0.1").get("/status")
        block.free.set()
    assert response.status_code == 503 and response.headers["retry-after"] == "1"
    assert response.json()["error"]["kind"] == "TookTooLong"


def test_concurrent_searches_give_what_single_ones_do(engine: Engine) -> None:
    queries = [f"owl word{at} {at}" for at in range(7)]
    expected = {
        query: [(hit.docid, hit.score) for hit in engine.search(query)] for query in queries
    }
    app = create_app(engine, ServerConfig(workers=4, patience_seconds=300))
    with TestClient(app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(8) as threads:

        def ask(query: str) -> list[tuple[str, float]]:
            hits = client.post("/search", json={"query": query}).json()["hits"]
            return [(hit["docid"], hit["score"]) for hit in hits]

        asked = queries * 6
        for query, found in zip(asked, threads.map(ask, asked), strict=True):
            assert found == expected[query] != []


def test_readers_see_whole_changes_only(engine: Engine) -> None:
    """Two documents always change together; a reader must never see one without the other."""
    config = ServerConfig(workers=3, patience_seconds=300)  # on a busy machine, too
    app = create_app(engine, config, allow_writes=True)
    over = threading.Event()
    with TestClient(app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(3) as threads:

        def pair(number: int) -> Any:
            fields = {"text": f"pair state{number}"}
            return {"documents": [{"docid": each, "fields": fields} for each in "ab"]}

        def watch(_reader: int) -> int:
            looks = 0
            while not over.is_set() or looks == 0:
                response = client.post("/search", json={"query": "+pair"})
                assert response.status_code == 200, response.text
                states = [hit["passage"]["text"] for hit in response.json()["hits"]]
                assert len(states) == 2 and len(set(states)) == 1, states
                looks += 1
            return looks

        assert client.post("/documents", json=pair(0)).is_success
        watching = [threads.submit(watch, reader) for reader in range(3)]
        for number in range(1, 9):
            assert client.post("/documents", json=pair(number)).json()["updated"] == 2
        over.set()
        assert all(future.result(300) > 0 for future in watching)


def test_two_servers_share_a_collection_that_one_of_them_writes(engine: Engine) -> None:
    with Engine.open(engine.folder) as other:
        writing = TestClient(create_app(engine, allow_writes=True), base_url="http://127.0.0.1")
        reading = TestClient(create_app(other), base_url="http://127.0.0.1")
        with writing, reading:
            for number in range(5):
                body = {"documents": [{"docid": "new", "fields": {"text": f"fresh{number}"}}]}
                assert writing.post("/documents", json=body).is_success
                for client in (writing, reading):
                    found = client.post("/search", json={"query": f"fresh{number}"}).json()
                    assert [hit["docid"] for hit in found["hits"]] == ["new"]
            assert writing.delete("/documents/new").is_success
            for client in (writing, reading):
                assert client.get("/documents/new").status_code == 404


def test_a_reader_that_looked_while_indexes_caught_up_looks_again(engine: Engine) -> None:
    """The documents are there before the index is: what is found then must not stay the answer."""
    committed, free = threading.Event(), threading.Event()

    class Slow(Engine):
        """Waits between its documents and its indexes."""

        def _catch_up(self, store: Store) -> None:
            committed.set()
            assert free.wait(300)
            super()._catch_up(store)

    reader = share_engine(engine, StageTimes())()
    with reader, Slow.open(engine.folder) as writer, ThreadPoolExecutor(1) as threads:
        new = Document("new", {"text": ("fresh",)})
        assert reader.search("fresh") == ()
        writing = threads.submit(writer.add_documents, [new])
        assert committed.wait(300)
        assert reader.search("fresh") == ()
        free.set()
        assert writing.result(300).added == 1
        assert [hit.docid for hit in reader.search("fresh")] == ["new"]


# Times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durations", "share", "expected"),
    [([3.0], 0.99, 3.0), (range(1, 101), 0.95, 95), (range(1, 101), 0.5, 50), ([1, 2], 0.5, 1)],
)
def test_quantiles(durations: Sequence[float], share: float, expected: float) -> None:
    assert quantile(durations, share) == expected


def test_stages_sum_up_all_threads_and_know_their_own() -> None:
    stages = StageTimes()
    with stages.of_one_request() as own:
        stages.note("search", 0.25)
        stages.note("search", 0.5)
        other = threading.Thread(target=stages.note, args=("search", 4.0))
        other.start()
        other.join()
    stages.note("fuse", 1.0)
    assert own == {"search": 0.75}
    found = stages.summaries()
    assert (found["search"].count, found["search"].total) == (3, 0.25 + 0.5 + 4.0)
    assert found["search"].quantiles == (0.5, 4.0, 4.0)
    assert found["fuse"].count == 1
