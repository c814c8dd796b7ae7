"""Searching in other processes: the same hits and errors, and nothing lost when one dies."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from quoth.engine.engine import Engine
from quoth.errors import FilterError, Interrupted, NoCollection
from quoth.interruption import Interruption, interruptible
from quoth.records import Document, SearchRequest
from quoth.server.errors import Crashed
from quoth.server.routes import create_app
from quoth.server.workers import processes as module
from quoth.server.workers.processes import SearchProcesses

OWL = SearchRequest("owl", k=2)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents(
            Document(f"d{at}", {"text": (f"owl number {at}",)}, {"year": at}) for at in range(9)
        )
        yield engine


@pytest.fixture
def processes(engine: Engine) -> Iterator[SearchProcesses]:
    processes = SearchProcesses(engine.folder, engine.given_settings, concurrent=2)
    yield processes
    processes.close()


def pids(processes: SearchProcesses) -> list[int]:
    return [each._process.pid for each in processes._all]


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, SearchProcesses]]:
    """An engine and a process for all tests that do it no harm."""
    with Engine.open(tmp_path_factory.mktemp("lasting") / "birds.quoth") as engine:
        engine.add_documents(
            Document(f"d{at}", {"text": (f"owl number {at}",)}, {"year": at}) for at in range(9)
        )
        processes = SearchProcesses(engine.folder, engine.given_settings, concurrent=2)
        yield engine, processes
        processes.close()


def test_hits_are_those_of_this_process(lasting: tuple[Engine, SearchProcesses]) -> None:
    engine, processes = lasting
    request = SearchRequest("owl", k=3, offset=1, where="year > 2", explain=True)
    found = json.loads(processes.find(request).body)
    expected = engine.find(request)
    assert [each["docid"] for each in found["hits"]] == [each.hit.docid for each in expected.hits]
    assert [each["score"] for each in found["hits"]] == [each.hit.score for each in expected.hits]
    assert processes.find(request).seconds["search"] > 0


def test_what_was_written_meanwhile_is_found(lasting: tuple[Engine, SearchProcesses]) -> None:
    engine, processes = lasting
    processes.find(OWL)
    engine.add_documents([Document("new", {"text": ("heron",)})])
    found = json.loads(processes.find(SearchRequest("heron")).body)
    assert [each["docid"] for each in found["hits"]] == ["new"]


def test_errors_come_back_and_the_process_is_kept(
    lasting: tuple[Engine, SearchProcesses],
) -> None:
    _engine, processes = lasting
    processes.find(OWL)
    before = pids(processes)
    with pytest.raises(FilterError, match="expected a value"):
        processes.find(SearchRequest("owl", where="year > ("))
    processes.find(OWL)
    assert pids(processes) == before


def test_a_collection_that_is_made_later_is_found(tmp_path: Path) -> None:
    processes = SearchProcesses(tmp_path / "new.quoth", (), concurrent=1)
    with pytest.raises(NoCollection):
        processes.find(OWL)
    with Engine.open(tmp_path / "new.quoth") as engine:
        engine.add_documents([Document("d", {"text": ("owl",)})])
    assert b'"docid":"d"' in processes.find(OWL).body
    processes.close()


def test_one_that_died_takes_one_search_with_it(processes: SearchProcesses) -> None:
    processes.find(OWL)
    (pid,) = pids(processes)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Crashed):
        processes.find(OWL)
    assert processes.find(OWL).body and pids(processes) != [pid]


def test_one_that_does_not_stop_is_not_used_again(
    processes: SearchProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STOP_SECONDS", 0.1)
    monkeypatch.setattr(module, "_END_SECONDS", 0.1)
    processes.find(OWL)
    (pid,) = pids(processes)
    os.kill(pid, signal.SIGSTOP)
    interruption = Interruption()
    interruption.stop()
    with interruptible(interruption), pytest.raises(Interrupted):
        processes.find(OWL)
    assert processes.find(OWL).body and pids(processes) != [pid]


def test_a_stopped_search_leaves_its_process_ready(
    lasting: tuple[Engine, SearchProcesses], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STOP_SECONDS", 300.0)
    _engine, processes = lasting
    processes.find(OWL)
    before = pids(processes)
    interruption = Interruption()
    interruption.stop()
    with interruptible(interruption):
        for _again in range(3):
            try:
                processes.find(SearchRequest("number", k=9))
            except Interrupted:
                continue
    found = json.loads(processes.find(OWL).body)
    assert found["query"] == "owl" and pids(processes) == before


def test_long_searches_give_way(processes: SearchProcesses) -> None:
    processes.find(OWL)
    processes.find(OWL, gives_way=True)
    priorities = [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids(processes)]
    assert max(priorities) == min(19, min(priorities) + 10)
    processes.find(OWL)
    assert len(pids(processes)) == 2


def test_they_end_with_whoever_asks_them(engine: Engine) -> None:
    processes = SearchProcesses(engine.folder, (), concurrent=2)
    processes.warm_up(OWL, number=2)
    started = [each._process for each in processes._all]
    processes.close()
    assert [each.returncode for each in started] == [0, 0]


def test_a_server_searches_with_them(engine: Engine, processes: SearchProcesses) -> None:
    app = create_app(engine, processes=processes)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        while client.get("/health/ready").status_code != 200:
            threading.Event().wait(0.01)
        asked = {"query": "owl", "k": 2, "where": ["year < 4"]}
        response = client.post("/search", json=asked)
        assert response.headers["content-type"] == "application/json"
        assert len(response.json()["hits"]) == 2
        for process in tuple(processes._all):
            process._process.kill()
        died = [client.post("/search", json=asked).status_code for _each in range(4)]
        assert set(died) <= {200, 503} and died[-1] == 200
        assert client.get("/stats").json()["stages"]["search"]["count"] > 0
