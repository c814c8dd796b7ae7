"""Each adapter against its real library: the same passages and places as a search of our own.

A library that is not installed is skipped; install one with its extra.
"""

from __future__ import annotations

import asyncio
import doctest
from pathlib import Path
from typing import Any

import pytest

from quoth.adapters import retrieving
from quoth.adapters.retrieving import retrieve
from quoth.records import SearchRequest

QUERY = "owl at dusk"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries


def _library(name: str, extra: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install quoth[{extra}]")


def _expected(engine: Any, k: int = 10, where: str = "") -> list[tuple[str, str, float]]:
    request = SearchRequest(QUERY, k=k, where=where)
    return [
        (each.hit.docid, each.hit.passage.text, each.hit.score)
        for each in engine.find(request).hits
    ]


def test_examples() -> None:
    failed, attempted = doctest.testmod(retrieving)
    assert attempted and not failed


def test_what_is_retrieved_can_be_cited(engine: Any) -> None:
    (first, *_rest) = retrieve(engine, QUERY, k=2)
    meta = first.metadata
    assert (first.docid, meta["title"], meta["year"]) == ("owl", "Barn owl", 2019)
    whole = engine.document("owl").fields[meta["field"]][meta["instance"]]
    assert whole[meta["start"] : meta["end"]] == first.text
    assert first.identity.startswith(f"owl#{meta['field']}:0:")


def test_a_query_is_plain_words(engine: Any) -> None:
    found = retrieve(engine, 'title:owl -dusk "no such phrase"', k=3)
    assert "owl" in [each.docid for each in found]


def test_langchain(engine: Any) -> None:
    _library("langchain_core", "langchain")
    from quoth.adapters.langchain import QuothRetriever

    found = QuothRetriever(engine=engine, k=2).invoke(QUERY)
    made = [(each.metadata["docid"], each.page_content, each.metadata["score"]) for each in found]
    assert made == _expected(engine, 2) and len({each.id for each in found}) == 2
    only = QuothRetriever(engine=engine, where="year > 2020").invoke(QUERY)
    assert [each.metadata["docid"] for each in only] == ["hen"]


def test_langchain_from_other_threads(folder: Path, url: str) -> None:
    _library("langchain_core", "langchain")
    from quoth.adapters.langchain import QuothRetriever

    for place in (str(folder), url):
        retriever = QuothRetriever.from_place(place, k=1)
        both = retriever.batch([QUERY, "swifts wing"])
        assert [each[0].metadata["docid"] for each in both] == ["owl", "swift"]
        (first,) = asyncio.run(retriever.ainvoke(QUERY))
        assert first.metadata["docid"] == "owl"


def test_langchain_in_a_chain(engine: Any) -> None:
    _library("langchain_core", "langchain")
    from langchain_core.runnables import RunnableLambda

    from quoth.adapters.langchain import QuothRetriever

    join = RunnableLambda(lambda found: " ".join(each.page_content for each in found))
    assert "hunts at dusk" in (QuothRetriever(engine=engine, k=1) | join).invoke(QUERY)


def test_llama_index(engine: Any) -> None:
    _library("llama_index.core", "llama-index")
    from quoth.adapters.llama_index import QuothRetriever

    found = QuothRetriever(engine, k=2).retrieve(QUERY)
    made = [(each.node.metadata["docid"], each.node.text, each.score) for each in found]
    assert made == _expected(engine, 2)


def test_haystack_in_a_pipeline_that_is_saved(folder: Path, url: str, engine: Any) -> None:
    haystack = _library("haystack", "haystack")
    from quoth.adapters.haystack import QuothRetriever

    for place in (str(folder), url):
        pipeline = haystack.Pipeline()
        pipeline.add_component("retriever", QuothRetriever(place, top_k=2))
        trusted = ["quoth.adapters.haystack"]
        again = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=trusted)
        found = again.run({"retriever": {"query": QUERY}})["retriever"]["documents"]
        made = [(each.meta["docid"], each.content, each.score) for each in found]
        assert made == _expected(engine, 2)
        narrow = again.run({"retriever": {"query": QUERY, "where": "year > 2020", "top_k": 1}})
        assert [each.meta["docid"] for each in narrow["retriever"]["documents"]] == ["hen"]
        again.get_component("retriever").close()


def test_pyterrier(engine: Any) -> None:
    pt = _library("pyterrier", "pyterrier")
    import pandas as pd

    from quoth.adapters.pyterrier import QuothTransformer

    topics = pd.DataFrame([["q1", QUERY], ["q2", "zebra"]], columns=["qid", "query"])
    ranked = QuothTransformer(engine, text=True, num_results=2)(topics)
    made = list(ranked[["docno", "text", "score"]].itertuples(index=False, name=None))
    assert made == _expected(engine, 2) and list(ranked["rank"]) == [0, 1]
    qrels = pd.DataFrame([["q1", "owl", 1]], columns=["qid", "docno", "label"])
    judged = pt.Evaluate(ranked, qrels, metrics=["recip_rank"])
    assert judged["recip_rank"] == pytest.approx(1.0)
    cut = (QuothTransformer(engine) % 1)(topics)
    assert list(cut["docno"]) == ["owl"]
    empty = QuothTransformer(engine)(topics[1:])
    assert len(empty) == 0 and {"qid", "query", "docno", "score", "rank"} <= set(empty.columns)
