"""The Model Context Protocol: what tools say of themselves, find, answer and refuse."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import sys
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from listening import listening
from tiny_language_model import save_language_model

from quoth import Engine
from quoth.errors import MissingExtra
from quoth.records import (
    Answer,
    Citation,
    Document,
    Passage,
    SearchRequest,
    ShownAnswer,
    Span,
)
from quoth.server.errors import Overloaded
from quoth.server.mcp.server import PATH, beside, create_mcp, make_routes, run_stdio
from quoth.wire.writing import answer_response, search_response

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

    with beside(engine) as engines:
        return asyncio.run(run(create_mcp(engines.reading, engines.answering)))


def _call(engine: Engine, name: str, **arguments: Any) -> Any:
    return _talk(engine, lambda client: client.call_tool(name, arguments))


def test_tools_describe_themselves_and_do_not_write(engine: Engine) -> None:
    tools = {each.name: each for each in _talk(engine, lambda c: c.list_tools()).tools}
    assert set(tools) == {"search", "ask", "fetch_passage"}
    assert all(each.annotations.read_only_hint for each in tools.values())
    assert tools["search"].input_schema["properties"]["query"]["maxLength"] == 1_000
    assert tools["search"].input_schema["properties"]["k"]["maximum"] == 100
    found = tools["search"].output_schema["$defs"]["PassageBody"]["properties"]
    assert found["start"]["type"] == "integer"


def test_search_gives_what_the_engine_finds(engine: Engine) -> None:
    result = _call(engine, "search", query="owl at dusk", k=3, where="year >= 2000")
    assert not result.is_error
    request = SearchRequest("owl at dusk", k=3, where="year >= 2000", searcher="auto")
    expected = search_response(request, engine.find(request)).model_dump(mode="json")
    assert result.structured_content == expected
    (hit,) = expected["hits"]
    assert hit["docid"] == "birds/owl" and hit["metadata"] == {"year": 2019}


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
    assert given["confidence"] == answer.confidence
    assert given["notice"] == stream.notice != ""  # a model that cannot quote says so
    assert [each["docid"] for each in given["passages"]] == ["birds/owl", "hen"]
    assert given["citations"] == []


def test_quotations_of_an_answer_stand_where_they_say() -> None:
    passage = Passage("birds/owl", "text", Span(28, 67), OWL[28:])
    answer = Answer("by hearing, it is.", (Citation(Span(0, 10), passage, Span(14, 24)),))
    shown = answer_response(ShownAnswer("how?", answer, (), "lexical"))
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


def _told(result: Any) -> tuple[str, str]:
    """The kind and the message of an error; whatever failed, it has this shape and no other."""
    assert result.is_error and result.structured_content is None
    (content,) = result.content
    told = json.loads(content.text)
    assert list(told) == ["error"] and sorted(told["error"]) == ["kind", "message"]
    return told["error"]["kind"], told["error"]["message"]


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "message"),
    [
        ("search", {"query": "owl", "where": "year >"}, "FilterError", "year >"),
        ("search", {"query": "owl", "searcher": "dense"}, "CollectionError", "quoth encode"),
        ("fetch_passage", {"docid": "swan"}, "NotFound", "there is no document 'swan'"),
        ("fetch_passage", {"docid": "hen", "field": "title"}, "CollectionError", "only text"),
        ("fetch_passage", {"docid": "hen", "instance": 1}, "CollectionError", "there is no 1"),
        ("find", {"query": "owl"}, "NotFound", "no tool 'find', only search, ask, fetch_passage"),
    ],
)
def test_what_cannot_be_done_is_told(
    engine: Engine, name: str, arguments: dict[str, Any], kind: str, message: str
) -> None:
    told, why = _told(_call(engine, name, **arguments))
    assert told == kind and message in why


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("search", {"query": "x" * 1_001}, "query: String should have at most 1000 characters"),
    ("search", {"query": "owl", "k": 101}, "k: Input should be less than or equal to 100"),
    ("search", {"query": "owl", "k": "5"}, "k: Input should be a valid integer"),
    ("search", {"query": "owl", "k": 5.0}, "k: Input should be a valid integer"),
    ("search", {"query": "owl", "k": True}, "k: Input should be a valid integer"),
    ("search", {"query": "owl", "k": None}, "k: Input should be a valid integer"),
    ("search", {"query": 7}, "query: Input should be a valid string"),
    ("search", {"query": "owl", "where": ["year > 2000"]}, "where: Input should be a valid string"),
    ("search", {"query": "owl", "searcher": "best"}, "searcher: Input should be 'auto', 'lexical'"),
    ("search", {"query": "owl", "limit": 5}, "limit: unknown argument, expected query, k, searche"),
    ("search", {}, "query: Field required"),
    ("ask", {"question": ""}, "question: String should have at least 1 character"),
    ("ask", {"question": "owl?", "where": ""}, "where: unknown argument"),
    ("ask", {"question": "owl?", "k": "3"}, "k: Input should be a valid integer"),
    ("fetch_passage", {"docid": "hen", "start": "0"}, "start: Input should be a valid integer"),
    ("fetch_passage", {"docid": "hen", "start": -1}, "start: Input should be greater than or"),
    ("fetch_passage", {"docid": "hen", "end": 9}, "end: unknown argument"),
]


def test_arguments_are_taken_as_the_schema_says_or_not_at_all(engine: Engine) -> None:
    async def talk(client: Any) -> list[Any]:
        return [await client.call_tool(name, given) for name, given, _expected in REFUSED]

    results = _talk(engine, talk)
    for (name, given, expected), result in zip(REFUSED, results, strict=True):
        kind, message = _told(result)
        assert kind == "ValidationError" and expected in message, (name, given, message)


def test_every_problem_is_told_and_no_value_is_repeated(engine: Engine) -> None:
    given = {"query": ["a secret"], "k": "another", "n" * 500: 1, "m": 2}
    kind, message = _told(_call(engine, "search", **given))
    assert kind == "ValidationError" and "secret" not in message and "another" not in message
    assert [each.split(": ")[0] for each in message.split("; ")] == [
        "query",
        "k",
        "n" * 100 + "…",
        "m",
    ]


def test_schemas_say_that_there_are_no_other_arguments(engine: Engine) -> None:
    for tool in _talk(engine, lambda client: client.list_tools()).tools:
        assert tool.input_schema["additionalProperties"] is False, tool.name


def test_questions_have_engines_of_their_own() -> None:
    """Those who find an engine busy are told when to come back."""

    async def read(_work: Callable[[Any], _T], /) -> _T:
        raise Overloaded("the readers are busy")

    async def answer(_work: Callable[[Any], _T], /) -> _T:
        raise Overloaded("the answerer is busy")

    async def talk() -> list[Any]:
        async with mcp.Client(create_mcp(read, answer)) as client:
            return [
                await client.call_tool("search", {"query": "owl"}),
                await client.call_tool("fetch_passage", {"docid": "owl"}),
                await client.call_tool("ask", {"question": "owl?"}),
            ]

    assert [_told(result) for result in asyncio.run(talk())] == [
        ("Overloaded", "the readers are busy (retry after 1 s)"),
        ("Overloaded", "the readers are busy (retry after 1 s)"),
        ("Overloaded", "the answerer is busy (retry after 1 s)"),
    ]


def test_what_nobody_foresaw_is_not_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_given: object, **_named: object) -> None:
        raise RuntimeError("a path and a secret")

    monkeypatch.setattr(Engine, "find", fail)
    kind, message = _told(_call(engine, "search", query="owl"))
    assert kind == "InternalError" and "secret" not in message
    assert "a path and a secret" in caplog.text


def test_a_missing_sdk_is_named_with_the_command(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    monkeypatch.delitem(sys.modules, "quoth.server.mcp.tools", raising=False)
    with pytest.raises(MissingExtra, match=r'pip install "quoth\[server\]"'):
        run_stdio(engine)


@contextlib.contextmanager
def _listening(engine: Engine, hosts: Sequence[str] | None) -> Iterator[str]:
    """Serve the routes on a port of the system's choice, in a thread."""
    import uvicorn
    from starlette.applications import Starlette

    with beside(engine) as engines:
        server = create_mcp(engines.reading, engines.answering)

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
        "import sys; from quoth import Engine; from quoth.server.mcp.server import run_stdio;"
        " run_stdio(Engine.open(sys.argv[1]))"
    )
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-c", code, str(engine.folder)], env=dict(os.environ)
    )

    async def talk() -> Any:
        async with mcp.Client(command) as client:
            return await client.call_tool("search", {"query": "owl at dusk"})

    result = asyncio.run(talk())
    assert result.structured_content["hits"][0]["docid"] == "birds/owl"


def test_a_search_does_not_wait_for_an_answer(engine: Engine, tmp_path: Path) -> None:
    """Over standard input and output; the answer here takes until the search is there."""
    code = """
import pathlib, sys, time
from quoth import Engine
from quoth.server.mcp.server import run_stdio
from quoth.errors import CollectionError

def wait(*_given, **_named):
    pathlib.Path(sys.argv[2], "asked").touch()
    while not pathlib.Path(sys.argv[2], "found").exists():
        time.sleep(0.01)
    raise CollectionError("waited")

Engine.ask = wait
run_stdio(Engine.open(sys.argv[1]))
"""
    arguments = ["-c", code, str(engine.folder), str(tmp_path)]
    command = mcp.StdioServerParameters(
        command=sys.executable, args=arguments, env=dict(os.environ)
    )

    async def talk() -> tuple[Any, Any]:
        async with mcp.Client(command) as client, asyncio.timeout(120):
            asking = asyncio.create_task(client.call_tool("ask", {"question": "owl?"}))
            while not (tmp_path / "asked").exists():
                await asyncio.sleep(0.01)
            found = await client.call_tool("search", {"query": "owl at dusk"})
            (tmp_path / "found").touch()
            return found, await asking

    found, answered = asyncio.run(talk())
    assert found.structured_content["hits"][0]["docid"] == "birds/owl"
    assert _told(answered) == ("CollectionError", "waited")


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
