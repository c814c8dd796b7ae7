"""The Model Context Protocol: what tools say of themselves, find, answer and refuse."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import sys
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from listening import listening
from tiny_language_model import save_language_model

from quoth import Engine
from quoth.app.mcp_records import answered
from quoth.app.mcp_server import PATH, create_mcp, make_routes, one_at_a_time, run_stdio
from quoth.app.server_engine import WorkerEngine
from quoth.errors import MissingExtra
from quoth.records import Answer, Citation, Document, Passage, Span

mcp = pytest.importorskip("mcp")
_T = TypeVar("_T")

OWL = "The barn owl hunts at dusk. It finds mice by hearing, not by sight."


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth") as opened:
        opened.add_documents(
            [
                Document("birds/owl", {"title": ("Barn owl",), "text": (OWL,)}, {"year": 2019}),
                Document("hen", {"text": ("A hen sleeps in the barn.",)}, {"tags": ("a", "b")}),
            ]
        )
        yield opened


def _talk(engine: Engine, talk: Callable[[Any], Awaitable[_T]]) -> _T:
    """Talk to a server over the SDK's connection in memory."""

    async def run(server: Any) -> _T:
        async with mcp.Client(server) as client:
            return await talk(client)

    with one_at_a_time(engine) as on_engine:
        return asyncio.run(run(create_mcp(on_engine)))


def _call(engine: Engine, name: str, **arguments: Any) -> Any:
    return _talk(engine, lambda client: client.call_tool(name, arguments))


def test_tools_describe_themselves_and_do_not_write(engine: Engine) -> None:
    tools = {each.name: each for each in _talk(engine, lambda c: c.list_tools()).tools}
    assert set(tools) == {"search", "ask", "fetch_passage"}
    assert all(each.annotations.read_only_hint for each in tools.values())
    assert tools["search"].input_schema["properties"]["query"]["maxLength"] == 1_000
    assert tools["search"].input_schema["properties"]["k"]["maximum"] == 100
    found = tools["search"].output_schema["$defs"]["FoundPassage"]["properties"]
    assert found["start"]["type"] == "integer"


def test_search_gives_what_the_engine_finds(engine: Engine) -> None:
    result = _call(engine, "search", query="owl at dusk", k=3, where="year >= 2000")
    assert not result.is_error
    (hit,) = engine.search("owl at dusk", k=3, where="year >= 2000")
    assert hit.passage is not None
    assert result.structured_content == {
        "searcher": "lexical",
        "hits": [
            {
                "docid": "birds/owl",
                "title": "Barn owl",
                "score": hit.score,
                "field": hit.passage.field,
                "instance": 0,
                "start": hit.passage.span.start,
                "end": hit.passage.span.end,
                "text": hit.passage.text,
                "metadata": {"year": 2019},
            }
        ],
    }


def test_search_gives_repeated_metadata_as_lists(engine: Engine) -> None:
    (hit,) = _call(engine, "search", query="hen").structured_content["hits"]
    assert hit["metadata"] == {"tags": ["a", "b"]} and hit["title"] == ""


def test_ask_gives_what_the_engine_answers(engine: Engine, tmp_path: Path) -> None:
    model = save_language_model(tmp_path / "model")
    settings = [{"answer": {"model": str(model), "threshold": 1.0}}]
    with Engine.open(engine.folder, settings=settings) as answering:
        result = _call(answering, "ask", question="When does the barn owl hunt?")
        stream = answering.ask("When does the barn owl hunt?")
        answer = stream.answer()
    given = result.structured_content
    assert given["text"] == answer.text and given["support"] == answer.support
    assert given["notice"] == stream.notice != ""  # a model that cannot quote says so
    assert given["docids"] == ["birds/owl", "hen"] and given["citations"] == []


def test_quotations_of_an_answer_stand_where_they_say() -> None:
    passage = Passage("birds/owl", "text", Span(28, 67), OWL[28:])
    answer = Answer("by hearing, it is.", (Citation(Span(0, 10), passage, Span(14, 24)),))
    shown = answered(answer, "")
    (quotation,) = shown.citations
    assert shown.marked == "by hearing[1], it is."
    assert OWL[quotation.start : quotation.end] == quotation.quoted == "by hearing"
    assert answer.text[quotation.answer_start : quotation.answer_end] == quotation.quoted
    assert quotation.sentence == "It finds mice by hearing, not by sight."


def test_fetch_passage_reads_on(engine: Engine) -> None:
    fetched = _call(engine, "fetch_passage", docid="birds/owl", start=4, length=8)
    assert fetched.structured_content == {
        "docid": "birds/owl",
        "field": "text",
        "instance": 0,
        "start": 4,
        "end": 12,
        "length": len(OWL),
        "text": OWL[4:12],
        "instances": {"title": 1, "text": 1},
    }
    beyond = _call(engine, "fetch_passage", docid="birds/owl", field="title", start=900)
    assert beyond.structured_content["start"] == beyond.structured_content["end"] == 8


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("search", {"query": "owl", "where": "year >"}, "year >"),
        ("search", {"query": "owl", "searcher": "dense"}, "quoth encode"),
        ("search", {"query": "x" * 1_001}, "1000 characters"),
        ("search", {"query": "owl", "k": 101}, "less than or equal to 100"),
        ("ask", {"question": ""}, "at least 1 character"),
        ("fetch_passage", {"docid": "swan"}, "there is no document 'swan'"),
        ("fetch_passage", {"docid": "hen", "field": "title"}, "only text"),
        ("fetch_passage", {"docid": "hen", "instance": 1}, "there is no 1"),
    ],
)
def test_what_cannot_be_done_is_told(
    engine: Engine, name: str, arguments: dict[str, Any], message: str
) -> None:
    result = _call(engine, name, **arguments)
    assert result.is_error and message in result.content[0].text


def test_what_nobody_foresaw_is_not_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_given: object, **_named: object) -> None:
        raise RuntimeError("a path and a secret")

    monkeypatch.setattr(WorkerEngine, "find", fail)
    result = _call(engine, "search", query="owl")
    assert result.is_error and "secret" not in result.content[0].text
    assert "a path and a secret" in caplog.text


def test_a_missing_sdk_is_named_with_the_command(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    monkeypatch.delitem(sys.modules, "quoth.app.mcp_tools", raising=False)
    with pytest.raises(MissingExtra, match=r'pip install "quoth\[server\]"'):
        run_stdio(engine)


@contextlib.contextmanager
def _listening(engine: Engine, hosts: Sequence[str] | None) -> Iterator[str]:
    """Serve the routes on a port of the system's choice, in a thread."""
    import uvicorn
    from starlette.applications import Starlette

    with one_at_a_time(engine) as on_engine:
        server = create_mcp(on_engine)

        @contextlib.asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            async with server.session_manager.run():
                yield

        app = Starlette(routes=make_routes(server, hosts=hosts), lifespan=lifespan)
        running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        with listening(running) as url:
            yield url + PATH


def test_the_same_tools_are_there_over_standard_input_and_output(engine: Engine) -> None:
    code = (
        "import sys; from quoth import Engine; from quoth.app.mcp_server import run_stdio;"
        " run_stdio(Engine.open(sys.argv[1]))"
    )
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-c", code, str(engine.folder)]
    )

    async def talk() -> Any:
        async with mcp.Client(command) as client:
            return await client.call_tool("search", {"query": "owl at dusk"})

    result = asyncio.run(talk())
    assert result.structured_content["hits"][0]["docid"] == "birds/owl"


def test_the_same_tools_are_there_over_http(engine: Engine) -> None:
    async def talk(url: str) -> Any:
        async with mcp.Client(url) as client:
            return await client.call_tool("search", {"query": "owl at dusk"})

    with _listening(engine, ["127.0.0.1"]) as url:
        result = asyncio.run(talk(url))
    assert result.structured_content["hits"][0]["docid"] == "birds/owl"


@pytest.mark.parametrize(
    ("hosts", "host", "origin", "status"),
    [
        (["127.0.0.1", "::1"], "evil.example", "", 421),
        (["127.0.0.1", "::1"], "127.0.0.1:1", "http://evil.example", 403),
        (["127.0.0.1", "::1"], "[::1]:1", "http://[::1]:1", 200),
        (None, "search.example", "", 200),
    ],
)
def test_pages_of_other_names_cannot_reach_it_over_http(
    engine: Engine, hosts: Sequence[str] | None, host: str, origin: str, status: int
) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    accepted = "application/json, text/event-stream"
    headers = {"Accept": accepted, "Content-Type": "application/json", "Host": host}
    if origin:
        headers["Origin"] = origin
    with _listening(engine, hosts) as url:
        address = urllib.parse.urlsplit(url).netloc
        with contextlib.closing(http.client.HTTPConnection(address)) as connection:
            connection.request("POST", PATH, body, headers)
            assert connection.getresponse().status == status
