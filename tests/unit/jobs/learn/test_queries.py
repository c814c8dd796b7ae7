"""Queries of a learning: the split, writing that resumes, BM25 over units, and the verdict."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.searchers import Searchers
from quoth.errors import CorpusError, Damaged
from quoth.jobs.learn.judging import Asked, decide, reciprocal_ranks
from quoth.jobs.learn.queries import (
    PassageLookup,
    Unit,
    list_units,
    make_training_queries,
    one_by_one,
    read_written,
    write_queries,
)
from quoth.jobs.learn.query_log import read_log
from quoth.models.glow.config import GlowConfig
from quoth.records import Document, Hit, Query, Run
from quoth.settings.config import Config
from quoth.settings.learn import LearnConfig
from quoth.text.words import Analyser, AnalyserConfig

LONG = "Owls hunt mice at night. " * 40 + "Ravens steal shiny coins from barns. " * 40


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    documents = [
        Document(f"d{at}", {"title": (f"Bird {at}",), "text": (LONG,)}) for at in range(20)
    ]
    documents += [Document(f"fish{at}", {"text": (f"Pike number {at} swims",)}) for at in range(20)]
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents(documents)
    with closing(Store.open(tmp_path / "birds.quoth")) as opened:
        yield opened


@pytest.fixture
def units(store: Store) -> list[Unit]:
    return list_units(store, GlowConfig(), share=0.25, seed=0)


def test_documents_are_split_not_passages(units: list[Unit]) -> None:
    sides: dict[str, set[bool]] = {}
    for unit in units:
        sides.setdefault(unit.docid, set()).add(unit.is_held_out)
    assert len(sides) == 40 and all(len(each) == 1 for each in sides.values())
    assert sum(True in each for each in sides.values()) == 10
    assert len(units) > 40  # the long ones have several
    assert units[0].source.title == "Bird 0" and units[0].source.text.startswith("Owls hunt")


def _write(texts: Sequence[str]) -> list[list[str]]:
    return [[f"what of {text[-6:]}", ""] for text in texts]


def test_writing_goes_on_after_the_last_whole_chunk(units: list[Unit], tmp_path: Path) -> None:
    units = units * 3
    rows = list(range(0, len(units), 2))
    calls: list[int] = []

    def interrupted(texts: Sequence[str]) -> list[list[str]]:
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return _write(texts)

    def ignore(_done: int, _total: int) -> None:
        pass

    with pytest.raises(KeyboardInterrupt):
        write_queries(units, rows, tmp_path / "cut", one_by_one(interrupted), progress=ignore)
    write_queries(units, rows, tmp_path / "cut", one_by_one(interrupted), progress=ignore)
    write_queries(units, rows, tmp_path / "whole", one_by_one(_write), progress=ignore)
    assert sum(calls) == len(rows) + calls[1]  # only the chunk that was cut is written twice
    found = read_written(tmp_path / "cut")
    assert found == read_written(tmp_path / "whole") and list(found) == rows
    assert all(len(own) == 1 for own in found.values())  # the empty query is gone
    (tmp_path / "cut" / "part-000000.jsonl").write_text("{")
    with pytest.raises(Damaged, match="delete it to write it anew"):
        read_written(tmp_path / "cut")


@pytest.fixture
def lookup(store: Store, units: list[Unit]) -> PassageLookup:
    def fail(_config: Config) -> object:
        raise AssertionError("BM25 needs no encoder")

    names = ("encoder", "generator", "generative", "reranker", "scorer")
    loading = {f"load_{name}": fail for name in names}
    searchers = Searchers(store.path.parent, store, Config(), **loading)  # type: ignore[arg-type]
    analyser = Analyser(AnalyserConfig())
    return PassageLookup(units, searchers.lexical(syntax=False), analyser=analyser)


def test_bm25_gives_the_passage_where_the_words_are(
    units: list[Unit], lookup: PassageLookup
) -> None:
    (owls, coins, nothing) = lookup.top_k(["owls night", "shiny coins", "zebra"], 5)
    assert len(owls) == len(coins) == 5 and nothing == []
    assert all("Owls" in units[row].source.text for row in owls)
    assert all("coins" in units[row].source.text for row in coins)
    assert {units[row].docid for row in owls} == {units[row].docid for row in coins}
    assert lookup.best_unit("coins", "nobody") is None


def test_nothing_judged_and_nothing_held_out_is_trained_on(
    units: list[Unit], lookup: PassageLookup
) -> None:
    written = {row: [f"pike number {unit.docid[4:]}"] for row, unit in enumerate(units)}
    config = LearnConfig(corpus_queries=2)
    judged = ["Pike NUMBER 3!"]
    found = make_training_queries(units, written, lookup, config, judged=judged)
    assert found and not any(units[query.source_row].is_held_out for query in found)
    assert "pike number 3" not in {query.text for query in found}
    generated = [query for query in found if query.kind == "generated"]
    assert generated  # each found its own source, which is its positive
    assert all(query.lexical_rows[0] == query.source_row for query in generated)
    assert all("fish" in units[query.source_row].docid for query in generated)


def test_what_people_asked_is_trained_on_with_bm25s_best_passage(
    units: list[Unit], lookup: PassageLookup, tmp_path: Path
) -> None:
    log = tmp_path / "asked.jsonl"
    log.write_text('{"query": "owls night"}\nshiny coins\n\n{"text": "Owls: night?"}\n!?\n')
    logged = read_log(log)
    assert logged == ["owls night", "shiny coins"]
    config = LearnConfig(corpus_queries=0)
    found = make_training_queries(units, {}, lookup, config, judged=["Shiny coins"], logged=logged)
    assert [(query.text, query.kind, query.source_row) for query in found] == [
        ("owls night", "log", -1)
    ]
    assert found[0].lexical_rows == tuple(lookup.top_k(["owls night"], 20)[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [("\n!\n", "holds no queries"), ("{bad\n", r":1 is no JSON"), ('{"a": 1}\n', "neither query")],
)
def test_a_log_that_cannot_be_read_is_refused(tmp_path: Path, content: str, message: str) -> None:
    log = tmp_path / "asked"
    log.write_text(content)
    with pytest.raises(CorpusError, match=message):
        read_log(log)
    with pytest.raises(CorpusError, match="is no file"):
        read_log(tmp_path / "nothing")


def test_a_model_is_installed_only_if_hybrid_rises_beyond_chance() -> None:
    def scores(
        hybrid: float, dense: float, other: float = 0.5
    ) -> dict[str, dict[str, list[float]]]:
        return {"known items": {"dense": [dense, 0.5, 0.5], "hybrid": [hybrid, hybrid, other]}}

    old = scores(0.5, 0.5)
    assert decide(old, scores(0.6, 0.5, 0.51), margin=0.005)[0]
    assert decide(old, scores(0.6, 0.4, 0.51), margin=0.005)[0], "nobody sees dense alone"
    assert not decide(old, scores(0.504, 0.9), margin=0.005)[0]
    assert not decide(old, scores(0.6, 0.6, 0.35), margin=0.005)[0], "a rise, but maybe by chance"
    is_installed, reason = decide({}, {}, margin=0.005)
    assert not is_installed and "no queries" in reason


def test_where_hits_are_reranked_the_reranked_search_must_rise() -> None:
    def scores(hybrid: float, reranked: float) -> dict[str, dict[str, list[float]]]:
        kinds = ("known items", "pseudo-queries")
        one = {"dense": [0.5] * 3, "hybrid": [hybrid] * 3, "reranked": [reranked] * 2}
        return dict.fromkeys(kinds, one)

    old = scores(0.5, 0.5)
    is_installed, reason = decide(old, scores(0.9, 0.5), margin=0.005)
    assert not is_installed and "reranked +0.0000" in reason and "hybrid +0.4000" in reason
    assert decide(old, scores(0.5, 0.6), margin=0.005)[0]


def test_reciprocal_ranks_stop_at_ten() -> None:
    hits = tuple(Hit(f"d{at}", 20.0 - at) for at in range(12))
    asked = [
        Asked(Query("q", "x"), frozenset(docids)) for docids in (["d3"], ["d11"], ["d9", "d1"])
    ]
    assert reciprocal_ranks(Run("dense", {"q": hits}), asked) == [1 / 4, 0.0, 1 / 2]


def test_a_machine_that_only_trains_needs_no_more_than_its_libraries() -> None:
    absent = (
        "tantivy, Stemmer, typer, rich, pypdf, docx, trafilatura, lxml, faiss, ir_measures, scipy"
    )
    code = (
        "import sys\n"
        f"for name in {absent!r}.split(', '): sys.modules[name] = None\n"
        "import quoth.training.retriever.run_packed\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
