"""Vectors, fusion and answers over HTTP, with tiny random models; queries encoded together."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from tiny_encoder import save_tiny_encoder
from tiny_language_model import TEXTS, make_dynamic_lm
from tiny_reader import make_reader

from quoth.engine.engine import Engine
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoded import Encoded
from quoth.records import Document
from quoth.server.errors import TookTooLong
from quoth.server.monitoring.timings import StageTimes
from quoth.server.routes import create_app
from quoth.server.schemas import PostedQuestion
from quoth.server.service import Service
from quoth.server.workers.batching_encoder import BatchingEncoder
from quoth.server.workers.pool import WorkerPool
from quoth.settings.server import ServerConfig
from quoth.vocabulary.dynamic import NO_ANSWER

QUESTION = "When does the barn owl hunt?"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An encoded collection with a tiny encoder and a tiny model that quotes."""
    folder = tmp_path_factory.mktemp("neural")
    encoder = save_tiny_encoder(folder / "tiny")
    language_model = make_dynamic_lm(folder / "base")
    with torch.no_grad():
        language_model.network.encoder.scale *= 2.0  # so that it quotes
    language_model.save(folder / "quoting", dtype="fp32")
    given = {
        "dense": {"encoder": str(encoder)},
        "fusion": {"method": "rrf"},
        "answer": {"model": str(folder / "quoting"), "threshold": 1.0},
        "decoding": {"max_subwords": 30, "no_repeat_subwords": 4},
    }
    with Engine.open(folder / "birds.quoth", settings=[given]) as engine:
        engine.add_documents(
            Document(f"bird-{at}", {"title": (f"Bird {at}",), "text": (text,)}, {"at": at})
            for at, text in enumerate([*TEXTS, "See [1] and the barn owl: [2]."])
        )
        engine.encode()
        yield engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[TestClient]:
    app = create_app(engine, ServerConfig(workers=3, patience_seconds=300))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        while client.get("/health/ready").status_code != 200:
            time.sleep(0.01)
        yield client


def _search(client: TestClient, query: str, **asked: Any) -> Any:
    response = client.post("/search", json={"query": query, **asked})
    assert response.status_code == 200, response.text
    return response.json()


# Searching -------------------------------------------------------------------------------------


def test_models_are_loaded_when_it_is_ready(client: TestClient) -> None:
    stages = client.get("/stats").json()["stages"]
    assert stages["encode"]["count"] >= 1


@pytest.mark.parametrize("searcher", ["lexical", "dense", "hybrid"])
def test_hits_are_those_of_the_engine(client: TestClient, engine: Engine, searcher: str) -> None:
    found = _search(client, "barn owl at dusk", searcher=searcher, where=["at < 3"])
    expected = engine.search("barn owl at dusk", searcher=searcher, where="at < 3")
    assert len(expected) == 3 or searcher == "lexical"
    assert [hit["docid"] for hit in found["hits"]] == [hit.docid for hit in expected]
    for hit, other in zip(found["hits"], expected, strict=True):
        assert hit["score"] == pytest.approx(other.score, abs=1e-5)
        assert other.passage is not None and hit["passage"]["text"] == other.passage.text


def test_auto_fuses_what_is_encoded_and_says_who_found_what(
    client: TestClient, engine: Engine
) -> None:
    found = _search(client, "barn owl", explain=True)
    assert found["searcher"] == "hybrid"
    assert {"encode", "search lexical", "search dense", "fuse"} <= found["seconds"].keys()
    ranks = {
        name: {
            hit.docid: rank for rank, hit in enumerate(engine.search("barn owl", searcher=name), 1)
        }
        for name in ("lexical", "dense")
    }
    for hit in found["hits"]:
        own = {name: at["rank"] for name, at in hit["found_by"].items()}
        assert own == {
            name: by_docid[hit["docid"]]
            for name, by_docid in ranks.items()
            if hit["docid"] in by_docid
        }
        assert hit["score"] == pytest.approx(sum(1 / (60 + rank) for rank in own.values()))
        assert hit["explanation"]["value"] == pytest.approx(hit["score"])


def test_auto_reranks_while_there_is_time_and_says_so(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = {"rerank": {"reader": str(make_reader(tmp_path).folder)}}
    with Engine.open(engine.folder, settings=[*engine.given_settings, reader]) as reading:
        app = create_app(reading, ServerConfig(query_log=str(tmp_path / "asked")))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            found = _search(client, "barn owl", explain=True)
            assert found["reranked_by"] == "cross-encoder"
            assert "cross-encoder" in found["hits"][0]["found_by"]
            docid = found["hits"][0]["docid"]
            told = client.post("/explain", json={"query": "barn owl", "docids": [docid]}).json()
            assert told["explanations"][0]["part"] == found["hits"][0]["explanation"]
            assert _search(client, "barn owl", rerank=False, offset=1)["reranked_by"] == ""
            monkeypatch.setattr(WorkerPool, "is_busy", True)
            assert _search(client, "owls")["reranked_by"] == ""
            assert _search(client, "owls", rerank=True)["reranked_by"] == "cross-encoder"
    asked = [json.loads(line)["query"] for line in (tmp_path / "asked").read_text().splitlines()]
    assert asked == ["barn owl", "owls", "owls"], "once per search, not per page"


def test_each_side_is_asked_once_per_search(client: TestClient) -> None:
    def counts() -> dict[str, int]:
        stages = client.get("/stats").json()["stages"]
        return {name: stages[name]["count"] for name in ("search lexical", "search dense")}

    for _attempt in range(5):  # what others asked before may be counted late
        before = counts()
        _search(client, "raven at night", explain=False)
        after = counts()
        if after == {name: number + 1 for name, number in before.items()}:
            break
    assert after == {name: number + 1 for name, number in before.items()}


def test_explain_shows_where_the_encoder_looked(client: TestClient) -> None:
    asked = {"query": "barn owl", "docids": ["bird-0"], "searcher": "dense"}
    (found,) = client.post("/explain", json=asked).json()["explanations"]
    assert {each["word"] for each in found["attention"]["query"]} == {"barn", "owl"}
    assert all(0 <= each["share"] <= 1 for each in found["attention"]["document"])
    assert found["part"]["label"] == "dense"


def test_many_clients_get_what_one_gets(client: TestClient) -> None:
    queries = ["barn owl", "raven", "swift sleep", "mouse at night"]
    alone = {query: _search(client, query)["hits"] for query in queries}
    with ThreadPoolExecutor(8) as threads:
        asked = queries * 5
        for query, found in zip(
            asked, threads.map(lambda q: _search(client, q), asked), strict=True
        ):
            for hit, expected in zip(found["hits"], alone[query], strict=True):
                assert hit["docid"] == expected["docid"]
                assert hit["score"] == pytest.approx(expected["score"], abs=1e-5)


# Encoding together -----------------------------------------------------------------------------


class Slow:
    """Encodes the length of each text, and waits before the first batch until it is let go."""

    name, width, config, inputs = "slow", 1, GlowConfig(), None

    def __init__(self) -> None:
        self.batches: list[tuple[str, ...]] = []
        self.begun = threading.Event()
        self.free = threading.Event()

    def encode_queries(self, texts: Sequence[str], *, counts: Any = None) -> Encoded:
        self.batches.append(tuple(texts))
        self.begun.set()
        assert self.free.wait(300)
        if "bad" in texts:
            raise ValueError("cannot read this")
        lengths = tuple(map(len, texts))
        return Encoded(np.array(lengths, dtype=np.float32)[:, None], lengths, lengths)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def together(slow: Slow) -> BatchingEncoder:
    return BatchingEncoder(slow, StageTimes())  # type: ignore[arg-type]


def test_who_comes_while_others_are_encoded_goes_together(
    together: BatchingEncoder, slow: Slow
) -> None:
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(together.encode_queries, ["one"])
        assert slow.begun.wait(300)
        rest = [threads.submit(together.encode_queries, ["x" * at, "y"]) for at in range(5)]
        while len(together._waiting) < 5:
            time.sleep(0.001)
        slow.free.set()
        assert first.result(300).lengths == (3,)
        for at, future in enumerate(rest):
            assert future.result(300).lengths == (at, 1)
            assert future.result(300).vectors[:, 0].tolist() == [at, 1]
    assert [len(batch) for batch in slow.batches] == [1, 10]


def test_what_cannot_be_encoded_fails_for_all_who_asked_and_no_other(
    together: BatchingEncoder,
    slow: Slow,
) -> None:
    slow.free.set()
    with pytest.raises(ValueError, match="cannot read this"):
        together.encode_queries(["bad"])
    assert together.encode_queries(["good"]).lengths == (4,)


def test_weighted_queries_go_alone(together: BatchingEncoder, slow: Slow) -> None:
    slow.free.set()
    counts: Any = object()
    assert together.encode_queries(["abc"], counts=counts).lengths == (3,)
    assert slow.batches == [("abc",)]


# Answering -------------------------------------------------------------------------------------


def _answer(client: TestClient, **asked: Any) -> Any:
    response = client.post("/answer", json={"question": QUESTION, **asked})
    assert response.status_code == 200, response.text
    return response.json()


def _events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_an_answer_is_the_engines_and_its_quotations_can_be_checked(
    client: TestClient, engine: Engine
) -> None:
    found = _answer(client, searcher="lexical")
    expected = engine.answer(QUESTION, searcher="lexical")
    assert found["text"] == expected.text and not found["abstained"]
    assert found["support"] == pytest.approx(expected.support)
    assert found["confidence"] == expected.confidence and not found["disagrees"]
    assert len(found["citations"]) == len(expected.citations) > 0
    for citation in found["citations"]:
        quoted = found["text"][citation["answer_start"] : citation["answer_end"]]
        document = client.get(f"/documents/{citation['docid']}").json()
        whole = document["fields"][citation["field"]][citation["instance"]]
        assert quoted == citation["quoted"]
        assert quoted == whole[citation["start"] : citation["end"]]
        assert quoted in citation["sentence"] and citation["sentence"] in whole
    assert [each["rank"] for each in found["passages"]] == [1, 2, 3, 4]
    assert [each["passage"]["text"] for each in found["passages"]] == [
        passage.text for passage in expected.passages
    ]
    assert found["seconds"]["total"] >= found["seconds"]["answer"] > 0


def test_a_stream_tells_the_same_piece_by_piece(client: TestClient) -> None:
    whole = _answer(client)
    response = client.post("/answer", json={"question": QUESTION, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = _events(response.text)
    names = [name for name, _record in events]
    assert names == ["token"] * (len(names) - 1) + ["answer"] and len(names) > 2
    final = events[-1][1]
    for record in (whole, final):
        del record["seconds"]
    assert final == whole
    tokens = [record for name, record in events if name == "token"]
    assert "".join(each["text"] for each in tokens).strip() == whole["text"]
    quoted = [each for each in tokens if each["passage"] is not None]
    assert quoted and all(
        each["text"].strip() in whole["passages"][each["passage"]]["passage"]["text"]
        for each in quoted
    )


def test_silence_where_an_answer_is_less_probable_than_asked(client: TestClient) -> None:
    spoken = _answer(client, threshold=1.0)
    silent = _answer(client, threshold=0.0)
    assert not spoken["abstained"] and spoken["support"] < 1.0
    assert silent["abstained"] and silent["text"] == NO_ANSWER and silent["citations"] == []
    assert silent["passages"] == spoken["passages"]
    events = _events(
        client.post("/answer", json={"question": QUESTION, "threshold": 0.0, "stream": True}).text
    )
    assert [name for name, _record in events] == ["answer"]


def test_an_answer_offers_the_question_corrected_as_a_search_does(
    client: TestClient, engine: Engine
) -> None:
    misspelt = _answer(client, question="When does the barn owl hnut?")
    assert misspelt["did_you_mean"] == "When does the barn owl hunt?"
    assert _search(client, "When does the barn owl hnut?")["did_you_mean"]
    assert _answer(client)["did_you_mean"] == ""
    assert engine.generate("The barn owl hnut").shown().suggestion == ""


def test_nothing_is_quoted_where_phrases_are_not_wanted(client: TestClient) -> None:
    assert _answer(client, phrases=False)["citations"] == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ({"question": ""}, 422, "question"),
        ({"question": "  "}, 400, "empty"),
        ({"question": "a" * 4001}, 422, "4000"),
        ({"question": "a b " * 999}, 400, "ask a shorter one"),
        ({"question": "a", "k": 101}, 422, "k: "),
        ({"question": "a", "threshold": 1.5}, 422, "threshold"),
        ({"question": "a", "searcher": "generative"}, 400, "quoth train pixar"),
    ],
)
def test_what_cannot_be_answered_is_explained(
    client: TestClient, asked: Any, status: int, expected: str, stream: bool
) -> None:
    response = client.post("/answer", json={**asked, "stream": stream})
    assert response.status_code == status, response.text
    assert expected in response.json()["error"]["message"]


def test_an_error_in_the_middle_ends_the_stream_with_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quoth.errors import Damaged
    from quoth.server import service as server_service

    def break_down(*_given: object, **_named: object) -> None:
        raise Damaged("a file is gone")

    monkeypatch.setattr(server_service, "answer_response", break_down)
    response = client.post("/answer", json={"question": QUESTION, "stream": True})
    name, record = _events(response.text)[-1]
    assert name == "error" and record["error"]["kind"] == "Damaged"
    assert record["error"]["request_id"] == response.headers["x-request-id"]


def test_whoever_stops_listening_frees_the_worker(engine: Engine) -> None:
    service = Service(engine, ServerConfig(workers=1))
    asked = PostedQuestion(question=QUESTION, stream=True)

    async def listen_once() -> tuple[str, Any]:
        events = service.answer_events(asked)
        first = await anext(events)
        await events.aclose()  # type: ignore[attr-defined]
        await service.on_answerer(lambda _engine: None)  # the one worker has time again
        return first

    name, _record = asyncio.run(listen_once())
    whole = asyncio.run(service.answer(asked))
    service.close()
    assert name == "token" and whole["citations"]
    assert service.metrics.stages.summaries()["answer"].count == 2


def test_an_answer_that_takes_too_long_ends_with_an_error(engine: Engine) -> None:
    service = Service(engine, ServerConfig(workers=1, answer_seconds=1e-6))

    async def listen() -> list[Any]:
        return [event async for event in service.answer_events(PostedQuestion(question=QUESTION))]

    with pytest.raises(TookTooLong):
        asyncio.run(listen())
    service.close()


def test_assistants_are_served_at_mcp(engine: Engine) -> None:
    app = create_app(engine, ServerConfig(workers=1), mcp=True)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    with TestClient(app, base_url="http://127.0.0.1") as client:
        response = client.post("/mcp", json=asked, headers=headers)
        assert response.status_code == 200, response.text
        tools = {each["name"] for each in response.json()["result"]["tools"]}
        assert {"search", "ask", "fetch_passage"} <= tools
        assert "nosniff" in response.headers["x-content-type-options"]
    refused = TestClient(create_app(engine, mcp=True)).post("/mcp", json=asked, headers=headers)
    assert refused.status_code == 403
