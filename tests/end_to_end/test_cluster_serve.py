"""A collection in shards served from a real cluster of three machines, of which some are killed.

One cluster for all tests, on loopback; its head runs no replicas, so that it is never killed. Most
tests share one deployment, too, and write to the collection in one piece what they write to shards.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from quoth.collection.shards import create_shards, open_shards
from quoth.engine.engine import Engine
from quoth.records import Document, SearchRequest
from quoth.server.routes import create_app
from quoth.shards.engine import ShardedEngine
from quoth.shards.opening import OpenedEngine
from quoth.shards.ray_serve import open_from_cluster

QUOTH = Path(sys.executable).parent / "quoth"
WORDS = ("owl", "raven", "hen", "heron", "wren", "stork", "swift", "finch", "robin", "crane")
QUERIES = ("owl", "raven heron", "the swift crane", "finch -owl", "robin hen stork")
NUM_SHARDS = 2

pytestmark = [
    pytest.mark.slow,  # three nodes on a small machine take minutes
    pytest.mark.filterwarnings("ignore"),  # Ray's own, which come from many threads
]


def _documents() -> list[Document]:
    chance = random.Random(5)
    return [
        Document(
            f"bird/{number}",
            {
                "title": (f"Note {number}",),
                "text": (" ".join(chance.choices(WORDS, k=chance.randint(3, 30))),),
            },
            {"year": 2000 + number % 20},
        )
        for number in range(80)
    ]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine.open(tmp_path_factory.mktemp("plain") / "birds.quoth") as engine:
        engine.add_documents(_documents())
        yield engine


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return _make_shards(tmp_path / "birds.shards")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards that tests write to, and write the same to `plain`."""
    return _make_shards(tmp_path_factory.mktemp("shared") / "birds.shards")


def _make_shards(folder: Path) -> Path:
    create_shards(folder, count=NUM_SHARDS)
    with ShardedEngine.open(folder) as engine:
        engine.add_documents(_documents())
    return folder


@pytest.fixture(scope="module")
def cluster(monkeymodule: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three machines; the first is the head, and runs nothing."""
    monkeymodule.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _machine in range(2):
            made.add_node(num_cpus=4)
        yield made
    finally:
        made.shutdown()


@pytest.fixture(scope="module")
def monkeymodule() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def served(shared: Path, cluster: Any) -> Iterator[TestClient]:
    """The shared shards, each served by two replicas."""
    with _served(shared, cluster, replicas=2) as client:
        yield client


@contextmanager
def _client(engine: OpenedEngine) -> Iterator[TestClient]:
    with TestClient(create_app(engine), base_url="http://127.0.0.1") as client:
        while client.get("/health/ready").status_code != 200:
            time.sleep(0.05)
        yield client


@contextmanager
def _served(folder: Path, cluster: Any, **settings: Any) -> Iterator[TestClient]:
    values = [{"cluster": {"cpus": 0.5, "wait_seconds": 2.0, **settings}}]
    with (
        open_from_cluster(folder, cluster.address, settings=values) as engine,
        _client(engine) as client,
    ):
        yield client


def _search(client: TestClient, query: str, **asked: Any) -> Any:
    response = client.post("/search", json={"query": query, "k": 20, **asked})
    assert response.status_code == 200, response.text
    return response.json()


class Load:
    """Asks one query after another until it is told to stop, and keeps what was answered."""

    def __init__(self, client: TestClient) -> None:
        self.answers: list[tuple[int, Any]] = []
        self._client = client
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopped.set()
        self._thread.join()

    def wait_for(self, count: int) -> None:
        """Wait until so many more have been answered."""
        enough = len(self.answers) + count
        while len(self.answers) < enough:
            time.sleep(0.01)

    def partial(self) -> list[Any]:
        """Return the answers that were not of all documents."""
        return [answer for _status, answer in self.answers if answer.get("unreachable")]

    def failed(self) -> list[Any]:
        """Return the answers that are none."""
        return [answer for status, answer in self.answers if status != 200]

    def _ask(self) -> None:
        while not self._stopped.is_set():
            response = self._client.post("/search", json={"query": "owl raven", "k": 20})
            self.answers.append((response.status_code, response.json()))


def _machines_of_replicas(identity: str = "") -> dict[int, set[str]]:
    """Find the machines that run replicas of each shard, of one collection or of any."""
    from ray._private import state

    found: dict[int, set[str]] = {number: set() for number in range(NUM_SHARDS)}
    for actor in state.actors().values():
        named = re.search(rf"quoth-{identity[:12]}.*#shard-(\d{{5}})#", actor["Name"])
        if named and actor["State"] == "ALIVE":
            found[int(named[1])].add(actor["Address"]["NodeID"])
    return found


def _kill(cluster: Any, machine: str) -> None:
    """Kill a machine without a word, and put another in its place."""
    node = next(each for each in cluster.worker_nodes if each.node_id == machine)
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=4)


def _wanted(engine: OpenedEngine, *, k: int) -> list[tuple[str, Any]]:
    """Return what the load should find."""
    hits = engine.search("owl raven", k=k)
    return [(hit.docid, pytest.approx(hit.score, rel=1e-6)) for hit in hits]


def _scores(answer: Any) -> list[tuple[str, float]]:
    return [(hit["docid"], hit["score"]) for hit in answer["hits"]]


# On the cluster --------------------------------------------------------------------------------


def test_answers_are_those_of_the_collection_in_one_piece(
    plain: Engine, served: TestClient
) -> None:
    with _client(plain) as whole:
        for query in QUERIES:
            for asked in ({}, {"offset": 3, "k": 4}, {"where": ["year > 2009"], "explain": True}):
                mine, theirs = (_search(each, query, **asked) for each in (served, whole))
                assert mine["unreachable"] == []
                assert len(mine["hits"]) == len(theirs["hits"]) > 0
                for ours, other in zip(mine["hits"], theirs["hits"], strict=True):
                    assert ours.pop("score") == pytest.approx(other.pop("score"), rel=1e-6)
                    ours.pop("found_by"), other.pop("found_by")
                    ours.pop("explanation"), other.pop("explanation")
                    assert ours == other
        fetched = served.get("/documents/bird/7").json()
        assert fetched == whole.get("/documents/bird/7").json()
        assert served.get("/documents/nobird").status_code == 404
        assert served.get("/status").json()["documents"] == len(plain.docids())
        refused = served.post("/search", json={"query": "owl", "where": ["year >"]})
        assert refused.status_code == 400
        assert refused.json()["error"]["kind"] == "FilterError"
        explained = served.post("/explain", json={"query": "owl", "docids": ["bird/7"]})
        assert explained.status_code == 200


def test_what_is_written_is_taken_up_without_a_failed_query(
    plain: Engine, shared: Path, served: TestClient
) -> None:
    with Load(served) as load, ShardedEngine.open(shared) as writer:
        load.wait_for(5)
        for number in range(6):
            added = [Document(f"new/{number}", {"text": ("owl raven " * 5,)})]
            for each in (plain, writer):
                each.add_documents(added)
        for each in (plain, writer):
            each.remove(["bird/1", "bird/2"])
        load.wait_for(5)
    assert not load.failed()
    assert not load.partial()
    assert _scores(_search(served, "owl raven")) == _wanted(plain, k=20)


def test_a_killed_machine_costs_no_query_where_there_are_two_replicas(
    plain: Engine, served: TestClient, cluster: Any
) -> None:
    with Load(served) as load:
        load.wait_for(5)
        before = _machines_of_replicas()
        assert all(len(machines) == 2 for machines in before.values()), before
        lost = min(before[0])
        _kill(cluster, lost)
        while any(len(own - {lost}) < 2 for own in _machines_of_replicas().values()):
            time.sleep(0.1)  # until replicas are back, on the machine that is new
        load.wait_for(5)
    assert not load.failed()
    assert not load.partial()
    wanted = _wanted(plain, k=20)
    assert all(_scores(answer) == wanted for _status, answer in load.answers)


def test_with_one_replica_answers_say_what_was_out_of_reach(sharded: Path, cluster: Any) -> None:
    shards = open_shards(sharded)
    with ShardedEngine.open(sharded) as engine:
        wanted = _wanted(engine, k=80)
    with _served(sharded, cluster, replicas=1) as client, Load(client) as load:
        load.wait_for(5)
        machines = _machines_of_replicas(shards.identity)
        (lost,) = machines[1]
        assert lost not in machines[0], "Ray spreads replicas over machines"
        _kill(cluster, lost)
        while not load.partial():
            time.sleep(0.05)
        while load.answers[-1][1].get("unreachable"):
            time.sleep(0.05)
        load.wait_for(5)
        assert _scores(_search(client, "owl raven", k=80)) == wanted, "all are back"
    assert not load.failed()
    within = [(docid, score) for docid, score in wanted if shards.shard_of(docid) == 0]
    counts = sum(shards.shard_of(document.docid) == 1 for document in _documents())
    for answer in load.partial():
        assert _scores(answer) == within[: len(answer["hits"])]
        (missing,) = answer["unreachable"]
        assert (missing["shard"], missing["documents"]) == (1, counts)
        assert missing["why"]


def test_the_command_serves_a_collection_from_a_cluster(sharded: Path, cluster: Any) -> None:
    command = [str(QUOTH), "serve", str(sharded), "--ray", cluster.address, "--port", "0"]
    with subprocess.Popen(
        [*command, "--replicas", "1"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        said = next((line for line in lines if "serving" in line), "")
        drain = threading.Thread(target=server.stderr.read, daemon=True)
        drain.start()
        try:
            url = said.rpartition(" at ")[2].strip()
            request = urllib.request.Request(
                f"{url}/search",
                data=json.dumps({"query": "owl"}).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=300) as response:
                assert len(json.loads(response.read())["hits"]) == 10
            server.send_signal(signal.SIGINT)
            server.wait(300)
        finally:
            server.kill()
            drain.join(300)


def test_inner_routers_find_the_same(tmp_path: Path, cluster: Any) -> None:
    folder = tmp_path / "birds.shards"
    create_shards(folder, count=4)
    with ShardedEngine.open(folder) as local:
        local.add_documents(_documents())
        settings = [{"cluster": {"tree_from": 2, "cpus": 0.1}}]
        with open_from_cluster(folder, cluster.address, settings=settings) as tree:
            assert [port.shards for port in tree._fan_out.ports.values()] == [(0, 1), (2, 3)]
            for query in QUERIES:
                request = SearchRequest(query, k=20)
                assert tree.find(request) == local.find(request)
            assert tree.document("bird/7") == local.document("bird/7")
            found = tree.status()
            assert found["documents"] == 80
            asked = [each["questions"]["asked"] for each in found["shards"].values()]
            assert len(asked) == 4 and all(asked), "each was asked past Ray by its inner router"
