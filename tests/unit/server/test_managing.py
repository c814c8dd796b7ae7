"""Uploaded files, who may write, and several collections behind one server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server.access.keys import Keys, add_numbered_key
from quoth.server.collections import Collections
from quoth.server.routes import create_app
from quoth.server.uploads import clean_name, read_upload
from quoth.text.readers.config import ReaderConfig

HERE = "http://127.0.0.1"


def _file(name: str, data: bytes) -> dict[str, str]:
    return {"name": name, "content": base64.b64encode(data).decode()}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "notes.quoth") as opened:
        yield opened


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with TestClient(create_app(engine, allow_writes=True), base_url=HERE) as client:
        yield client


def test_a_file_is_added_under_its_own_name(client: TestClient, engine: Engine) -> None:
    done = client.post("/files", json=_file("notes/owl.md", b"# Owl\n\nIt hunts."))
    assert done.json() == {"added": 1, "updated": 0, "unchanged": 0, "skipped": []}
    found = engine.document("notes/owl.md")
    assert found.title == "Owl" and found.metadata["path"] == "notes/owl.md"
    again = client.post("/files", json=_file("notes/owl.md", b"# Owl\n\nIt hunts."))
    assert again.json()["unchanged"] == 1


def test_what_is_skipped_is_named_by_the_file(client: TestClient) -> None:
    lines = b'{"id": "a", "text": "A text."}\n{"id": "a", "text": "Twice."}\n[]\n'
    done = client.post("/files", json=_file("in.jsonl", lines)).json()
    assert done["added"] == 1
    assert [each.partition(": ")[0] for each in done["skipped"]] == ["in.jsonl:2", "in.jsonl:3"]
    unknown = client.post("/files", json=_file("a.exe", b"MZ")).json()
    assert unknown["skipped"] == ["a.exe: unknown format, so it was not added"]
    assert client.post("/files", json={"name": "a.md", "content": "§"}).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "train"},
        {"kind": "learn", "minutes": 0},
        {"kind": "learn", "minutes": "5"},
        {"kind": "encode", "more": 1},
        {"kind": None},
        [],
        "encode",
    ],
)
def test_a_job_that_nobody_knows_is_not_started(client: TestClient, body: object) -> None:
    assert client.post("/job", json=body).status_code == 422
    assert client.get("/job").json()["state"] == "idle"
    assert client.delete("/job").status_code == 404


@pytest.mark.parametrize("name", ["/etc/../../x.txt", "..\\..\\x.txt", "x\n.txt", "/x.txt"])
def test_a_name_never_leads_anywhere(name: str, tmp_path: Path) -> None:
    assert clean_name(name) == "x.txt"
    read = read_upload(name, b"Some text.", ReaderConfig())
    assert [each.docid for each in read.documents] == ["x.txt"]
    assert not list(tmp_path.iterdir())


def test_nothing_of_the_temporary_folder_is_told() -> None:
    read = read_upload("t.csv", b"a,b\n1,2,3\n", ReaderConfig(id_key="#line"))
    told = [str(each) for each in (*read.documents, *read.problems)]
    assert told and not any("upload" in each or "quoth-" in each for each in told)


@pytest.mark.parametrize(
    ("scope", "allowed", "writes"),
    [("read", True, False), ("write", True, True), ("write", False, False)],
)
def test_access_says_what_this_key_may(
    engine: Engine, tmp_path: Path, scope: Any, allowed: bool, writes: bool
) -> None:
    engine.add_documents([Document("a", {"text": ("A text.",)})])
    made = add_numbered_key(tmp_path / "keys.jsonl", scope)
    app = create_app(engine, keys=Keys.read(tmp_path / "keys.jsonl"), allow_writes=allowed)
    headers = {"Authorization": f"Bearer {made.secret}"}
    with TestClient(app, base_url=HERE) as client:
        assert client.get("/access").status_code == 401
        found = client.get("/access", headers=headers).json()
        assert found == {"writes": writes, "collections": []}
        for path, body in (("/files", _file("a.txt", b"x")), ("/job", {"kind": "encode"})):
            if not writes:
                assert client.post(path, json=body, headers=headers).status_code == 403


def test_each_collection_has_its_own_address(engine: Engine, tmp_path: Path) -> None:
    engine.add_documents([Document("a", {"text": ("owl",)})])
    with Engine.open(tmp_path / "mail box.quoth") as mail:
        mail.add_documents([Document("m", {"text": ("owl",)})])
        apps = [create_app(each) for each in (engine, mail)]
        served = Collections(apps, ["notes", "mail box"])
        with TestClient(served, base_url=HERE) as client:

            def find(prefix: str) -> list[str]:
                hits = client.post(f"{prefix}/search", json={"query": "owl"}).json()["hits"]
                return [each["docid"] for each in hits]

            assert find("") == find("/c/notes") == ["a"] and find("/c/mail%20box") == ["m"]
            assert client.get("/c/none/status").status_code == 404
            assert client.get("/c/mail%20box/").text == client.get("/").text
            listed = client.get("/c/mail%20box/access").json()["collections"]
            assert [(each["address"], each["current"]) for each in listed] == [
                ("../notes/", False),
                ("../mail%20box/", True),
            ]
            outer = client.get("/access").json()["collections"]
            assert [each["address"] for each in outer] == ["c/notes/", "c/mail%20box/"]
            assert client.get("/c/mail%20box/documents?docid=m").json()["docid"] == "m"
            assert client.get("/health/live").json() == {"status": "live"}


@pytest.mark.parametrize(
    ("statuses", "expected"), [((200, 200), 200), ((200, 503), 503), ((503, 200), 503)]
)
def test_a_server_is_ready_when_all_its_collections_are(
    statuses: tuple[int, int], expected: int
) -> None:
    def make(status: int) -> FastAPI:
        app = FastAPI()
        app.get("/health/ready", status_code=status)(lambda: {"status": status})
        return app

    served = Collections([make(each) for each in statuses], ["notes", "mail"])
    with TestClient(served, base_url=HERE) as client:
        assert client.get("/health/ready").status_code == expected
        assert client.get("/c/mail/health/ready").status_code == statuses[1]
