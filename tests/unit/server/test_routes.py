"""The HTTP server in process: every route, what it says of errors, and what it says of itself."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from quoth.engine.engine import Engine
from quoth.errors import ConfigError
from quoth.records import Document
from quoth.server.routes import create_app
from quoth.settings.server import LIMITS, MAX_BODY_BYTES, ServerConfig

BIRDS = (
    Document("birds/owl", {"title": ("Barn owl",), "text": ("An owl hunts.",)}, {"year": 2019}),
    Document("raven", {"title": ("Raven",), "text": ("A raven watches an owl.",)}, {"year": 2020}),
    Document("hen", {"name": ("Hen",), "text": ("A hen sleeps.",)}, {"tags": ("a", 1, 2.5, True)}),
    Document("<b>", {"text": ("<script>alert('owl')</script>",)}),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A collection that tests may look at, but not change."""
    with Engine.open(tmp_path_factory.mktemp("made") / "birds.quoth") as engine:
        engine.add_documents(BIRDS)
        yield engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[TestClient]:
    with _serve(engine) as client:
        yield client


@pytest.fixture
def own(engine: Engine, tmp_path: Path) -> Iterator[TestClient]:
    """A server of a collection that the test may change."""
    copied = Path(shutil.copytree(engine.folder, tmp_path / "birds.quoth"))
    with Engine.open(copied) as engine, _serve(engine) as client:
        yield client


@contextmanager
def _serve(engine: Engine) -> Iterator[TestClient]:
    app = create_app(engine, ServerConfig(workers=2), allow_writes=True)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        while client.get("/health/ready").status_code != 200:
            time.sleep(0.01)
        yield client


def _search(client: TestClient, **asked: Any) -> Any:
    response = client.post("/search", json={"query": "owl", **asked})
    assert response.status_code == 200, response.text
    return response.json()


def _error(response: Any, status: int) -> Any:
    """Every error looks alike, and names the request it belongs to."""
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    error = response.json()["error"]
    assert sorted(error) == ["kind", "message", "request_id"]
    assert error["request_id"] == response.headers["x-request-id"]
    return error


# Searching -------------------------------------------------------------------------------------


def test_hits_are_those_of_the_engine(client: TestClient, engine: Engine) -> None:
    found = _search(client)
    hits = engine.search("owl")
    assert [(hit["docid"], hit["score"]) for hit in found["hits"]] == [
        (hit.docid, hit.score) for hit in hits
    ]
    for rank, (shown, hit) in enumerate(zip(found["hits"], hits, strict=True), start=1):
        passage = hit.passage
        assert passage is not None and shown["rank"] == rank
        assert shown["passage"] == {
            "field": passage.field,
            "instance": passage.instance,
            "start": passage.span.start,
            "end": passage.span.end,
            "text": passage.text,
            "place": passage.place,
        }
        snippet = engine.snippet("owl", passage)
        assert shown["snippet"]["text"] == snippet.text
        spans = [[span.start, span.end] for span in snippet.highlights]
        assert shown["snippet"]["highlights"] == spans != []
        assert shown["found_by"] == {"lexical": {"rank": rank, "score": hit.score}}
        assert shown["explanation"] is None
    assert (found["searcher"], found["k"], found["offset"]) == ("lexical", 10, 0)
    assert found["seconds"]["search"] >= found["seconds"]["search lexical"] > 0


def test_titles_and_metadata(client: TestClient) -> None:
    by_docid = {hit["docid"]: hit for hit in _search(client, query="owl hen")["hits"]}
    titles = {docid: hit["title"] for docid, hit in by_docid.items()}
    assert titles == {"birds/owl": "Barn owl", "raven": "Raven", "hen": "Hen", "<b>": ""}
    assert by_docid["hen"]["metadata"] == {"tags": ["a", 1, 2.5, True]}
    assert [type(each) for each in by_docid["hen"]["metadata"]["tags"]] == [str, int, float, bool]


def test_pages_join_to_the_whole(client: TestClient) -> None:
    whole = _search(client, query="owl hen", explain=True)["hits"]
    assert len(whole) == 4
    paged = [
        hit
        for offset in range(0, 6, 2)
        for hit in _search(client, query="owl hen", k=2, offset=offset, explain=True)["hits"]
    ]
    assert paged == whole


def test_explanations_add_up(client: TestClient) -> None:
    def total(part: Any) -> float:
        return sum(map(total, part["parts"])) if part["parts"] else part["value"]

    hits = _search(client, explain=True)["hits"]
    assert len(hits) == 3
    for hit in hits:
        assert total(hit["explanation"]) == pytest.approx(hit["score"])


@pytest.mark.parametrize(
    ("where", "docids"),
    [
        (["year > 2019"], ["raven"]),
        (["year > 2018", "year < 2020 or year > 2050"], ["birds/owl"]),
        (["", " "], ["birds/owl", "<b>", "raven"]),
    ],
)
def test_conditions_must_all_hold(client: TestClient, where: list[str], docids: list[str]) -> None:
    found = {hit["docid"] for hit in _search(client, where=where)["hits"]}
    assert found == set(docids)


def test_an_empty_query_finds_nothing(client: TestClient) -> None:
    assert _search(client, query="  ")["hits"] == []


@pytest.mark.parametrize(
    ("asked", "status", "kind", "expected"),
    [
        ({"query": "a", "where": ["year >"]}, 400, "FilterError", "expected a value"),
        ({"query": "a", "where": ["a == 1) or (b == 2"]}, 400, "FilterError", "expected"),
        ({"query": "a", "searcher": "dense"}, 400, "CollectionError", "quoth encode"),
        ({"query": "a", "searcher": "generative"}, 400, "CollectionError", "quoth train"),
        ({"query": "a", "searcher": "best"}, 422, "ValidationError", "searcher: "),
        ({"query": "a" * 1001}, 422, "ValidationError", "at most 1000"),
        ({"query": "a", "k": 0}, 422, "ValidationError", "k: "),
        ({"query": "a", "k": 101}, 422, "ValidationError", "k: "),
        ({"query": "a", "k": True}, 422, "ValidationError", "k: "),
        ({"query": "a", "k": 10, "offset": 991}, 422, "ValidationError", "1001"),
        ({"query": "a", "offset": -1}, 422, "ValidationError", "offset: "),
        ({"query": "a", "limit": 3}, 422, "ValidationError", "limit: "),
        ({}, 422, "ValidationError", "query: "),
    ],
)
def test_what_cannot_be_searched_is_explained(
    client: TestClient, asked: Any, status: int, kind: str, expected: str
) -> None:
    error = _error(client.post("/search", json=asked), status)
    assert error["kind"] == kind and expected in error["message"]


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"query": "\\ud800"}', b'{"query": NaN}', b"[]"])
def test_broken_bodies_are_refused(client: TestClient, body: bytes) -> None:
    response = client.post("/search", content=body, headers={"Content-Type": "application/json"})
    _error(response, 400 if body == b"\xff" else 422)


def test_where_no_route_takes_a_request_it_says_what_would(client: TestClient) -> None:
    assert "/docs lists the routes" in _error(client.get("/nothing"), 404)["message"]
    assert "found PUT, expected POST" in _error(client.put("/search"), 405)["message"]
    json = {"Content-Type": "application/json"}
    broken = _error(client.post("/search", content=b'{"query": }', headers=json), 422)
    assert "no valid JSON: Expecting value at character 10" in broken["message"]


def test_explain_says_the_same_as_the_engine(client: TestClient, engine: Engine) -> None:
    docids = ["raven", "birds/owl"]
    response = client.post("/explain", json={"query": "owl", "docids": docids})
    found = response.json()["explanations"]
    parts = engine.explain("owl", docids)
    assert [(each["docid"], each["part"]["value"]) for each in found] == [
        (docid, part.value) for docid, part in zip(docids, parts, strict=True)
    ]
    assert found[0]["attention"] is None
    missing = client.post("/explain", json={"query": "owl", "docids": ["raven", "dodo"]})
    assert "'dodo'" in _error(missing, 404)["message"]


# Documents -------------------------------------------------------------------------------------


def test_a_document_is_given_as_it_was_added(client: TestClient) -> None:
    assert client.get("/documents/birds%2Fowl").json() == {
        "docid": "birds/owl",
        "fields": {"title": ["Barn owl"], "text": ["An owl hunts."]},
        "metadata": {"year": 2019},
    }
    assert client.get("/documents/birds/owl").json()["docid"] == "birds/owl"
    assert client.get("/documents/%3Cb%3E").json()["docid"] == "<b>"
    assert "'dodo'" in _error(client.get("/documents/dodo"), 404)["message"]


def test_documents_are_added_updated_and_removed(own: TestClient) -> None:
    swift = {"docid": "a/b c?#é", "fields": {"text": ["Swifts sleep.", "On the wing."]}}
    added = own.post("/documents", json={"documents": [swift]})
    assert added.json() == {"added": 1, "updated": 0, "unchanged": 0}
    (hit,) = _search(own, query="wing")["hits"]
    assert (hit["docid"], hit["passage"]["instance"]) == (swift["docid"], 1)
    swift["fields"] = {"text": "A feather."}
    again = own.post("/documents", json={"documents": [swift, swift]})
    assert again.json() == {"added": 0, "updated": 1, "unchanged": 1}
    assert _search(own, query="wing")["hits"] == []
    path = "/documents/a%2Fb%20c%3F%23%C3%A9"
    assert own.delete(path).json() == {"removed": swift["docid"]}
    _error(own.get(path), 404)
    _error(own.delete(path), 404)
    assert _search(own, query="feather")["hits"] == []


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"docid": "bad", "fields": {}}, "has no text"),
        ({"docid": "bad", "fields": {"*": "a"}}, "field named"),
        ({"docid": "ba\0d", "fields": {"text": "a"}}, "NUL"),
        ({"docid": "", "fields": {"text": "a"}}, "docid"),
        ({"docid": "bad", "fields": {"text": 3}}, "fields.text"),
        ({"docid": "bad", "fields": {"text": "a"}, "metadata": {"a": {}}}, "metadata.a"),
        ({"docid": "bad", "fields": {"text": "a"}, "path": "/etc"}, "path"),
    ],
)
def test_none_is_added_where_one_cannot_be_stored(
    client: TestClient, bad: Any, expected: str
) -> None:
    good = {"docid": "good", "fields": {"text": "good"}}
    response = client.post("/documents", json={"documents": [good, bad]})
    assert expected in _error(response, 422)["message"]
    _error(client.get("/documents/good"), 404)


# Ourselves -------------------------------------------------------------------------------------


def test_health_and_readiness(engine: Engine) -> None:
    app = create_app(engine)
    cold = TestClient(app, base_url="http://127.0.0.1")
    assert cold.get("/health/live").json() == {"status": "live"}
    response = cold.get("/health/ready")
    assert _error(response, 503)["kind"] == "NotReady"
    assert response.headers["retry-after"] == "1"


def test_status_limits_and_report(client: TestClient, engine: Engine) -> None:
    assert client.get("/status").json() == json.loads(json.dumps(engine.status()))
    assert client.get("/limits").json() == LIMITS
    assert "quoth learn" in _error(client.get("/report"), 404)["message"]


def test_the_report_is_given_once_there_is_one(own: TestClient, tmp_path: Path) -> None:
    folder = tmp_path / "birds.quoth" / "learning"
    folder.mkdir()
    (folder / "state.json").write_text('{"version": 1}')
    (folder / "report.json").write_text('{"seed": 7}')
    assert own.get("/report").json() == {"seed": 7}


def test_stats_and_metrics_tell_of_requests(own: TestClient) -> None:
    before = own.get("/stats").json()["requests"]
    for _time in range(3):
        _search(own)
    _error(own.get("/nowhere"), 404)
    stats = own.get("/stats").json()
    assert stats["stages"]["search lexical"]["count"] >= 3
    stage = stats["stages"]["request"]
    assert 0 < stage["p50"] <= stage["p95"] <= stage["p99"]
    assert stats["queue"] == {"length": 0, "capacity": 4 * 64}
    assert stats["memory_bytes"] > 1_000_000 and stats["errors"] == 0
    assert stats["requests"] == before + 5
    lines = own.get("/metrics").text.splitlines()
    assert 'quoth_requests_total{method="POST",route="/search",status="200"} 3' in lines
    assert 'quoth_requests_total{method="GET",route="other",status="404"} 1' in lines
    assert all(re.fullmatch(r"# (HELP|TYPE) .+|\w+(\{[^}]*\})? [0-9.e+-]+", each) for each in lines)


def test_the_page_and_its_files_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8" and "<html" in page.text
    for name in re.findall(r'(?:src|href)="/?(assets/[^"]+)"', page.text):
        assert client.get(f"/{name}").status_code == 200, name
    for name in ("..%2Fserver.py", "server.py", "__init__.py", "%2Fetc%2Fpasswd", "a/b"):
        _error(client.get(f"/assets/{name}"), 404)


@pytest.mark.parametrize("path", ["/", "/assets/script.js", "/assets/icon.svg"])
def test_a_file_that_the_browser_has_is_not_sent_again(client: TestClient, path: str) -> None:
    first = client.get(path)
    tag = first.headers["etag"]
    again = client.get(path, headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert (again.headers["etag"], again.headers["cache-control"]) == (tag, "no-cache")
    changed = client.get(path, headers={"If-None-Match": '"other"'})
    assert (changed.status_code, changed.content) == (200, first.content)


def test_the_docs_need_nothing_from_outside(client: TestClient) -> None:
    page = client.get("/docs").text
    paths = client.get("/openapi.json").json()["paths"]
    assert len(paths) > 10 and all(f" {path}</code>" in page for path in paths)
    assert "<script" not in page and "style=" not in page and "//" not in page
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["assets/style.css", "openapi.json"]
    assert "query chars 1,000" in page


# Around every request --------------------------------------------------------------------------


def test_request_ids_are_taken_where_sane(client: TestClient) -> None:
    def answered(given: str) -> str:
        return client.get("/limits", headers={"X-Request-ID": given}).headers["x-request-id"]

    assert answered("abc-1.2_3") == "abc-1.2_3"
    assert answered("a b") != "a b" and answered("x" * 65) != "x" * 65
    assert len({answered("") for _time in range(5)}) == 5


@pytest.mark.parametrize("path", ["/", "/limits", "/nowhere", "/docs", "/assets/none"])
def test_every_answer_keeps_browsers_strict(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_long_answers_are_compressed(client: TestClient) -> None:
    response = client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert response.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in client.get("/limits").headers


def test_other_origins_only_where_named(engine: Engine) -> None:
    app = create_app(engine, ServerConfig(origins=("https://a.example",)))
    client = TestClient(app, base_url="http://127.0.0.1")

    def allowed(origin: str) -> str | None:
        found = client.get("/limits", headers={"Origin": origin})
        return found.headers.get("access-control-allow-origin")

    assert allowed("https://a.example") == "https://a.example"
    assert allowed("https://b.example") is None


def test_what_nobody_foresaw_is_answered_without_details(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(_self: Engine) -> None:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr(Engine, "status", break_down)
    response = client.get("/status", headers={"X-Request-ID": "broken"})
    assert _error(response, 500)["kind"] == "InternalError"
    assert "secret" not in response.text
    assert "request broken failed" in caplog.text and "a secret detail" in caplog.text


def test_no_collection_is_said_and_the_first_documents_make_one(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "new.quoth") as engine:
        app = create_app(engine, ServerConfig(workers=1), allow_writes=True)
        with TestClient(app, base_url="http://127.0.0.1") as client:
            error = _error(client.post("/search", json={"query": "a"}), 404)
            assert error["kind"] == "NoCollection"
            body = {"documents": [{"docid": "a", "fields": {"text": "owl"}}]}
            assert client.post("/documents", json=body).json()["added"] == 1
            assert len(_search(client)["hits"]) == 1


# Limits ----------------------------------------------------------------------------------------


def test_too_long_bodies_are_not_read(client: TestClient) -> None:
    announced = client.post("/search", content=b" " * (MAX_BODY_BYTES + 1))
    assert _error(announced, 413)["kind"] == "TooLarge"
    chunks = (b" " * 1_000_000 for _chunk in range(9))
    headers = {"Content-Type": "application/json"}
    _error(client.post("/search", content=chunks, headers=headers), 413)


def test_too_many_documents_are_refused(client: TestClient) -> None:
    many = [{"docid": str(at), "fields": {"text": "a"}} for at in range(1001)]
    assert "1000" in _error(client.post("/documents", json={"documents": many}), 422)["message"]


def test_settings_report_all_problems() -> None:
    with pytest.raises(ConfigError, match=r"port is 70000.*workers is 0.*origins has 'a'"):
        ServerConfig(port=70_000, workers=0, origins=("a",))
    assert ServerConfig(host="127.0.0.9").is_loopback and ServerConfig(host="::1").is_loopback
    assert not ServerConfig(host="0.0.0.0").is_loopback
    assert not ServerConfig(host="example.org").is_loopback
