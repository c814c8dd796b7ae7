"""Any docid that can be added can be asked for: in a path, in a query string, by the client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from urllib.parse import quote

import pytest
from listening import listening

from quoth import Client, Engine
from quoth.client.connection import ServerError
from quoth.records import Document
from quoth.server.routes import create_app
from quoth.server.run import make_server
from quoth.settings.server import MAX_DOCID_CHARS, ServerConfig

DOCIDS = (
    *("\n", "a\nb", "a\n", "\r\n", "\t", " ", "\x01\x1b\x7f\x85", "\u2028\u202e", "\ufeff"),
    *("/", "//a", "a/", "a/../b", "..", ".", "../..", "\\", "documents", "a/b"),
    *("%", "%2F", "%2e%2e", "%0A", "a%", "#", "#a", "?", "?docid=a", "&docid=a", "=", "+", "a+b"),
    *("é", "\U0001f989", "https://example.org/a?b#c", "x" * MAX_DOCID_CHARS),
    "\U0001f989" * MAX_DOCID_CHARS,
)

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Such a docid is named by ?docid= alone; a path with one is refused."""


def _document(at: int) -> Document:
    return Document(DOCIDS[at], {"text": (f"owl number{at}",)}, {"number": at})


@pytest.fixture(scope="module", params=["auto", "h11"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server, with each implementation of HTTP that an installation may have."""
    config = ServerConfig(workers=1)
    with Engine.open(tmp_path_factory.mktemp("docids") / "birds.quoth") as engine:
        running = make_server(create_app(engine, config, allow_writes=True), config)
        running.config.http, running.config.lifespan = request.param, "off"
        with listening(running) as found:
            yield found


def _statuses(url: str, method: str, docids: Sequence[str]) -> list[int]:
    """Ask for documents by path, as it is: no client here tidies ".." away."""
    connection = HTTPConnection(url.removeprefix("http://"))
    found = []
    for docid in docids:
        connection.request(method, "/documents/" + quote(docid, safe=""))
        with connection.getresponse() as response:
            response.read()
            found.append(response.status)
    connection.close()
    return found


def test_every_docid_comes_back_and_goes(url: str) -> None:
    documents = [_document(at) for at in range(len(DOCIDS))]
    with Client(url) as client:
        assert client.add_documents(documents).added == len(DOCIDS)
        assert [client.document(docid) for docid in DOCIDS] == documents
        hits = client.search("owl", k=100)
        assert sorted(hit.docid for hit in hits) == sorted(DOCIDS)
        parts = client.explain("owl", DOCIDS)
        assert [part.value for part in parts] == [hits[0].score] * len(DOCIDS)
        plain = [400 if CONTROL.search(docid) else 200 for docid in DOCIDS]
        assert _statuses(url, "GET", DOCIDS) == plain and 400 in plain
        assert client.remove(["..", "\r\n", "missing"]) == ("missing",)
        assert _statuses(url, "DELETE", ["a\nb", ".", "missing"]) == [400, 200, 404]
        left = {hit.docid for hit in client.search("owl", k=100)}
        assert left == set(DOCIDS) - {"..", "\r\n", "."}


def test_a_docid_of_none_is_refused(url: str) -> None:
    with Client(url) as client, pytest.raises(ServerError, match="docid"):
        client.document("")
