"""The Python client: the records and errors of `Engine` over a real connection, and its manners."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from listening import listening
from tiny_language_model import save_language_model

from quoth import Client, Engine
from quoth.client.connection import ServerError
from quoth.client.wire import write_batches
from quoth.collection.store import Written
from quoth.errors import CollectionError, ConfigError, CorpusError, FilterError, IndexMismatch
from quoth.records import Answer, Citation, Document, Passage, ShortAnswer, Span

EMPTY = {"hits": [], "searcher": "lexical", "unreachable": []}
PASSAGE = Passage("owl", "text", Span(10, 40), "The barn owl hunts at night. I")
ANSWER = Answer(
    "It hunts at night.",
    (Citation(Span(3, 17), PASSAGE, Span(13, 27)),),
    (PASSAGE,),
    0.75,
    short=ShortAnswer("night", Span(12, 17), 0.5),
    disagrees=True,
)
ANSWER_RECORD = {
    "question": "When?",
    "text": ANSWER.text,
    "abstained": False,
    "support": 0.75,
    "confidence": "probably",
    "disagrees": True,
    "short": {"text": "night", "answer_start": 12, "answer_end": 17, "probability": 0.5},
    "notice": "a notice",
    "citations": [
        {
            "number": 1,
            "answer_start": 3,
            "answer_end": 17,
            "docid": "owl",
            "field": "text",
            "instance": 0,
            "start": 23,
            "end": 37,
        }
    ],
    "passages": [
        {
            "docid": "owl",
            "passage": {
                "field": "text",
                "instance": 0,
                "start": 10,
                "end": 40,
                "text": PASSAGE.text,
            },
        }
    ],
}


@dataclass(frozen=True)
class Reply:
    """What the stand-in answers with, and how."""

    content: object = field(default_factory=dict)
    status: int = 200
    retry_after: str | None = None
    events: Sequence[tuple[str, object]] = ()
    hangs_up: bool = False


@dataclass
class StandIn:
    """A server that gives prepared replies in turn, the last one again and again."""

    url: str
    replies: list[Reply]
    requests: list[tuple[str, str, Any, dict[str, str]]] = field(default_factory=list)


@contextlib.contextmanager
def _stand_in(*replies: Reply) -> Iterator[StandIn]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            stand_in.requests.append((self.command, self.path, body, dict(self.headers)))
            turn = min(len(stand_in.requests), len(replies)) - 1
            _give(self, replies[turn])

        do_GET = do_DELETE = do_POST

        def log_message(self, *_given: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stand_in = StandIn(f"http://127.0.0.1:{server.server_port}", list(replies))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _give(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    if reply.hangs_up:
        handler.close_connection = True
        return
    content = reply.content if isinstance(reply.content, bytes) else json.dumps(reply.content)
    data = content if isinstance(content, bytes) else content.encode()
    if reply.events:
        lines = (f"event: {name}\ndata: {json.dumps(given)}\n\n" for name, given in reply.events)
        data = "".join(lines).encode()
    handler.send_response(reply.status)
    handler.send_header("Content-Length", str(len(data)))
    if reply.retry_after is not None:
        handler.send_header("Retry-After", reply.retry_after)
    handler.end_headers()
    handler.wfile.write(data)


def _refusal(kind: str, message: str = "no", *, status: int = 400, **named: Any) -> Reply:
    error = {"kind": kind, "message": message, "request_id": "r7"}
    return Reply({"error": error}, status=status, **named)


def test_a_search_says_what_it_wants() -> None:
    with _stand_in(Reply(EMPTY)) as server, Client(f"{server.url}/under/", key="s3cret") as client:
        assert client.search("owls", k=4, offset=8, where="year > 2000", searcher="dense") == ()
    ((method, path, body, headers),) = server.requests
    assert (method, path) == ("POST", "/under/search")
    assert body == {
        "query": "owls",
        "k": 4,
        "offset": 8,
        "searcher": "dense",
        "where": ["year > 2000"],
        "explain": False,
    }
    assert headers["Authorization"] == "Bearer s3cret"


def test_a_busy_server_is_tried_again() -> None:
    busy = _refusal("Overloaded", status=429, retry_after="0")
    with _stand_in(busy, busy, Reply(EMPTY)) as server, Client(server.url) as client:
        assert client.search("owls") == ()
    assert len(server.requests) == 3


def test_a_server_that_stays_busy_is_left_alone_at_last() -> None:
    busy = _refusal("Overloaded", "too much", status=429, retry_after="0")
    with _stand_in(busy) as server, Client(server.url, retries=2) as client:
        with pytest.raises(ServerError, match="too much") as raised:
            client.search("owls")
        assert raised.value.status == 429 and raised.value.request_id == "r7"
    assert len(server.requests) == 3


def test_no_one_waits_for_an_hour() -> None:
    with (
        _stand_in(_refusal("Overloaded", status=429, retry_after="3600")) as server,
        Client(server.url) as client,
        pytest.raises(ServerError),
    ):
        client.search("owls")
    assert len(server.requests) == 1


def test_other_errors_are_not_tried_again_and_go_by_their_name() -> None:
    refusal = _refusal("FilterError", "year > is cut off")
    with (
        _stand_in(refusal) as server,
        Client(server.url) as client,
        pytest.raises(FilterError, match="year > is cut off"),
    ):
        client.search("owls", where="year >")
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["annotations", "BaseException", "__name__", "KeyRequired", ""])
def test_an_error_of_no_name_of_ours_is_the_server_s(kind: str) -> None:
    with (
        _stand_in(_refusal(kind, "no entry", status=401)) as server,
        Client(server.url) as client,
        pytest.raises(ServerError, match="no entry"),
    ):
        client.status()


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"<html>", 200, "is it Quoth"),
        (b"[]", 200, "is it Quoth"),
        (b"\xff", 200, "is it Quoth"),
        (b"<html>", 502, "status 502"),
        (b"[]", 502, "status 502"),
        (b'{"error": 3}', 502, "status 502"),
    ],
)
def test_what_is_no_quoth_is_said_to_be_none(content: bytes, status: int, message: str) -> None:
    with (
        _stand_in(Reply(content, status=status)) as server,
        Client(server.url) as client,
        pytest.raises(ServerError, match=message),
    ):
        client.document("owl")


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(ServerError, match=f":{port}"):
        client.status()


def test_a_server_that_keeps_silent_is_given_up() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05) as client,
        pytest.raises(ServerError, match=r"within 0\.05 s"),
    ):
        client.status()


def test_a_connection_closed_meanwhile_is_opened_again() -> None:
    replies = (Reply(EMPTY), Reply(hangs_up=True), Reply(EMPTY))
    with _stand_in(*replies) as server, Client(server.url) as client:
        assert client.search("owls") == client.search("owls") == ()
    assert len(server.requests) == 3


def test_a_removal_is_sent_once() -> None:
    replies = (Reply(EMPTY), Reply(hangs_up=True))
    with _stand_in(*replies) as server, Client(server.url) as client:
        client.search("owls")
        with pytest.raises(ServerError):
            client.remove(["owl"])
    assert len(server.requests) == 2


def test_removing_names_what_was_not_there() -> None:
    replies = (Reply({"removed": "a/b"}), _refusal("NotFound", status=404))
    with _stand_in(*replies) as server, Client(server.url) as client:
        assert client.remove(["a/b", "c"]) == ("c",)
    assert [path for _method, path, *_rest in server.requests] == [
        "/documents?docid=a%2Fb",
        "/documents?docid=c",
    ]


def test_an_answer_is_the_engine_s_record() -> None:
    with _stand_in(Reply(ANSWER_RECORD)) as server, Client(server.url) as client:
        assert client.answer("When?", threshold=0.9) == ANSWER
    assert server.requests[0][2]["threshold"] == 0.9


def test_an_answer_comes_token_by_token() -> None:
    events = (
        ("token", {"text": "It ", "passage": None}),
        ("token", {"text": "hunts at night", "passage": 0}),
        ("answer", ANSWER_RECORD),
    )
    with _stand_in(Reply(events=events)) as server, Client(server.url) as client:
        stream = client.ask("When?")
        assert [(each.text, each.passage) for each in stream] == [
            ("It ", None),
            ("hunts at night", 0),
        ]
        assert stream.answer() == ANSWER and stream.notice == "a notice"
        assert client.ask("When?").answer() == ANSWER
    assert "threshold" not in server.requests[0][2] and server.requests[0][2]["stream"] is True


@pytest.mark.parametrize(
    ("last", "expected", "message"),
    [
        (("error", {"error": {"kind": "ConfigError", "message": "too long"}}), ConfigError, "long"),
        (("token", {"text": "more", "passage": None}), ServerError, "in the middle"),
    ],
)
def test_a_broken_answer_is_an_error(
    last: tuple[str, object], expected: type[Exception], message: str
) -> None:
    events = (("token", {"text": "It ", "passage": None}), last)
    with (
        _stand_in(Reply(events=events)) as server,
        Client(server.url) as client,
        pytest.raises(expected, match=message),
    ):
        client.ask("When?").answer()


def test_documents_go_in_calls_that_a_server_takes() -> None:
    short = [Document(str(number), {"text": ("a",)}) for number in range(1_001)]
    assert [len(json.loads(each)["documents"]) for each in write_batches(short)] == [1_000, 1]
    long = [Document(str(number), {"text": ("a" * 1_500_000,)}) for number in range(5)]
    assert [len(json.loads(each)["documents"]) for each in write_batches(long)] == [2, 2, 1]
    assert list(write_batches([])) == []


def test_all_problems_of_what_was_given_are_reported_and_no_key() -> None:
    with pytest.raises(ConfigError) as raised:
        Client("ftp://x", key="s3cret\n", timeout=0, retries=-1)
    message = str(raised.value)
    assert all(name in message for name in ("url is", "key holds", "timeout is", "retries is"))
    assert "s3cret" not in message
    with pytest.raises(ConfigError, match="url is"):
        Client("http://127.0.0.1:99999")


# Against the real server ---------------------------------------------------------------------

DOCIDS = ("owl", "a/b", "../up", "/", "ü ?#%2F&")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("served")
    model = save_language_model(folder / "model")
    settings = [{"answer": {"model": str(model), "threshold": 1.0}}]
    with Engine.open(folder / "birds.quoth", settings=settings) as opened:
        opened.add_documents(
            Document(
                docid,
                {"title": (f"Owl {number}",), "text": (f"The owl {docid} hunts.", "At dusk.")},
                {"year": 2000 + number, "tags": ("a", number), "rare": number == 0},
            )
            for number, docid in enumerate(DOCIDS)
        )
        yield opened


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    """Serve the engine on a port of the system's choice, in a thread."""
    uvicorn = pytest.importorskip("uvicorn")
    server = pytest.importorskip("quoth.server.routes")
    app = server.create_app(engine, allow_writes=True)
    running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with listening(running) as found:
        yield found


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened


@pytest.mark.parametrize("where", ["", "year >= 2002", "tags == 'a' or rare == true"])
def test_hits_are_those_of_the_engine(engine: Engine, client: Client, where: str) -> None:
    hits = engine.search("owl at dusk", where=where)
    assert len(hits) > 2 and client.search("owl at dusk", where=where) == hits
    assert client.search("owl at dusk", where=where, k=2, offset=1) == hits[1:3]


def test_explanations_are_those_of_the_engine(engine: Engine, client: Client) -> None:
    parts = engine.explain("owl at dusk", DOCIDS)
    assert client.explain("owl at dusk", DOCIDS) == parts and parts[0].parts
    assert client.attention("owl", DOCIDS[:2], searcher="lexical") == (None, None)


def test_answers_are_those_of_the_engine(engine: Engine, client: Client) -> None:
    answer = engine.answer("When does the owl hunt?", k=2)
    stream = client.ask("When does the owl hunt?", k=2)
    tokens = [each.text for each in stream]
    assert len(answer.passages) == 2 and len(tokens) > 1
    assert "".join(tokens).strip() == answer.text
    assert stream.answer() == client.answer("When does the owl hunt?", k=2) == answer


@pytest.mark.parametrize("docid", DOCIDS)
def test_documents_are_those_of_the_engine(engine: Engine, client: Client, docid: str) -> None:
    assert client.document(docid) == engine.document(docid)


def test_the_collection_is_described_as_by_the_engine(engine: Engine, client: Client) -> None:
    assert client.status() == json.loads(json.dumps(engine.status()))
    assert client.limits()["k"] == 100
    assert client.stats()["queue"]["capacity"] > 0
    with pytest.raises(CollectionError, match="quoth learn"):
        client.report()


def test_errors_are_those_of_the_engine(engine: Engine, client: Client) -> None:
    for each in (engine, client):
        with pytest.raises(FilterError, match="year"):
            each.search("owl", where="year >")
        with pytest.raises(CollectionError, match="there is no document 'swan'"):
            each.document("swan")
        with pytest.raises(CollectionError, match="there is no document 'swan'"):
            each.explain("owl", ["swan"])
        with pytest.raises((IndexMismatch, ConfigError, CollectionError), match="quoth encode"):
            each.search("owl", searcher="dense")
        with pytest.raises(CorpusError):
            each.add_documents([Document("blank", {"text": ("\ud800",)})])


def test_what_is_written_is_found_by_both(engine: Engine, client: Client) -> None:
    heron = Document("heron", {"text": ("A heron wades.",)}, {"year": 1999})
    assert client.add_documents([heron]) == Written(added=1)
    assert client.add_documents([heron]) == Written(unchanged=1)
    changed = Document("heron", {"text": ("A heron stands.",)})
    assert client.add_documents([changed]) == Written(updated=1)
    assert engine.document("heron") == client.document("heron") == changed
    assert [hit.docid for hit in client.search("heron")] == ["heron"]
    assert client.remove(["heron", "swan"]) == ("swan",)
    assert client.search("heron") == engine.search("heron") == ()
