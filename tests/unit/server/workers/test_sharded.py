"""A collection in shards over HTTP, in process: as in one piece, and without some of its shards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tiny_encoder import save_tiny_encoder

from quoth.engine.engine import Engine
from quoth.errors import ShardDown
from quoth.records import Document
from quoth.server.routes import create_app
from quoth.settings.server import ServerConfig
from quoth.shards.engine import ShardedEngine
from quoth.shards.opening import OpenedEngine
from quoth.shards.port import LocalPort
from quoth.shards.split_and_merge import split_collection

BIRDS = tuple(
    Document(f"bird-{at}", {"title": (f"Bird {at}",), "text": (text,)}, {"at": at})
    for at, text in enumerate(
        (
            "The barn owl hunts at dusk.",
            "An owl and a raven.",
            "A raven watches the owl at night.",
            "Hens sleep at night.",
            "The heron hunts by day.",
            "A wren sings of the owl.",
        )
    )
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    encoder = save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")
    return [{"dense": {"encoder": str(encoder)}, "fusion": {"method": "rrf"}}]


@pytest.fixture(scope="module")
def plain(
    tmp_path_factory: pytest.TempPathFactory, settings: list[dict[str, Any]]
) -> Iterator[Engine]:
    with Engine.open(tmp_path_factory.mktemp("one") / "birds.quoth", settings=settings) as engine:
        engine.add_documents(BIRDS)
        engine.encode()
        yield engine


@pytest.fixture(scope="module")
def shards(
    tmp_path_factory: pytest.TempPathFactory, plain: Engine, settings: list[dict[str, Any]]
) -> Path:
    folder = tmp_path_factory.mktemp("many") / "birds.shards"
    split_collection(plain.folder, folder, count=3, settings=settings)
    return folder


@contextmanager
def _serve(engine: OpenedEngine, *, writes: bool = False) -> Iterator[TestClient]:
    app = create_app(engine, ServerConfig(workers=2), allow_writes=writes)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        while client.get("/health/ready").status_code == 503:
            time.sleep(0.01)
        yield client


class Down(LocalPort):
    """A shard that does not answer."""

    def answer(self, *_arguments: Any, **_options: Any) -> Any:
        """Be out of reach."""
        raise ShardDown(self.number, "the cable is cut")

    find = show = explain = fetch = status = settle = sign = answer


@pytest.mark.parametrize("searcher", ["lexical", "dense", "hybrid", "auto"])
def test_hits_are_those_of_the_collection_in_one_piece(
    plain: Engine, shards: Path, settings: list[dict[str, Any]], searcher: str
) -> None:
    asked = {"query": "owl at night", "searcher": searcher, "explain": True, "where": ["at < 5"]}
    with (
        ShardedEngine.open(shards, settings=settings) as engine,
        _serve(plain) as whole,
        _serve(engine) as client,
    ):
        mine, theirs = (each.post("/search", json=asked).json() for each in (client, whole))
    assert mine["unreachable"] == []
    assert mine["searcher"] == theirs["searcher"]
    assert len(mine["hits"]) == len(theirs["hits"]) > 0
    for ours, other in zip(mine["hits"], theirs["hits"], strict=True):
        for name in ("rank", "docid", "title", "passage", "snippet", "metadata"):
            assert ours[name] == other[name]
        assert ours["score"] == pytest.approx(other["score"], abs=1e-6)
        assert ours["explanation"]["value"] == pytest.approx(ours["score"])
        assert {name: each["rank"] for name, each in ours["found_by"].items()} == {
            name: each["rank"] for name, each in other["found_by"].items()
        }


def test_a_shard_out_of_reach_is_named_with_its_documents(
    shards: Path, settings: list[dict[str, Any]]
) -> None:
    with ShardedEngine.open(shards, settings=settings) as whole:
        number = whole.shards.shard_of("bird-1")
        hidden = {each.docid for each in BIRDS if whole.shards.shard_of(each.docid) == number}
        hits = whole.search("owl", searcher="lexical")
        expected = [hit.docid for hit in hits if hit.docid not in hidden]
    ports = [
        (Down if path.name == f"shard-{number:05d}" else LocalPort).open(path, settings=settings)
        for path in sorted(shards.glob("shard-*"))
    ]
    with (
        ShardedEngine.open(shards, settings=settings, ports=ports) as engine,
        _serve(engine) as client,
    ):
        found = client.post("/search", json={"query": "owl", "searcher": "lexical"}).json()
        lost = client.get("/documents/bird-1")
        fetched = client.get(f"/documents/{expected[0]}")
        explained = client.post("/explain", json={"query": "owl", "docids": ["bird-1"]})
    for port in ports:
        port.close()
    assert [hit["docid"] for hit in found["hits"]] == expected
    assert found["unreachable"] == [
        {"shard": number, "documents": len(hidden), "why": "the cable is cut"}
    ]
    assert (lost.status_code, explained.status_code, fetched.status_code) == (503, 503, 200)
    assert lost.json()["error"]["kind"] == "ShardDown"


def test_no_shard_within_reach_is_an_error_that_may_pass(
    shards: Path, settings: list[dict[str, Any]]
) -> None:
    ports = [Down.open(path, settings=settings) for path in sorted(shards.glob("shard-*"))]
    with (
        ShardedEngine.open(shards, settings=settings, ports=ports) as engine,
        TestClient(create_app(engine), base_url="http://127.0.0.1") as client,
    ):
        answer = client.post("/search", json={"query": "owl", "searcher": "lexical"})
    for port in ports:
        port.close()
    assert answer.status_code == 503
    assert "none of 3 shards can be reached (the cable is cut)" in answer.json()["error"]["message"]


def test_documents_are_written_to_their_shards(tmp_path: Path, plain: Engine) -> None:
    folder = tmp_path / "birds.shards"
    split_collection(plain.folder, folder, count=2)
    with ShardedEngine.open(folder) as engine, _serve(engine, writes=True) as client:
        new = {"docid": "new", "fields": {"text": "a stork"}}
        assert client.post("/documents", json={"documents": [new]}).json()["added"] == 1
        found = client.post("/search", json={"query": "stork", "searcher": "lexical"}).json()
        assert [hit["docid"] for hit in found["hits"]] == ["new"]
        assert client.delete("/documents/new").status_code == 200
        assert client.delete("/documents/new").status_code == 404
        assert client.get("/documents/new").status_code == 404
        assert client.get("/report").status_code == 404
