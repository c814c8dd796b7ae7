"""Reranking as a user meets it, with tiny models that are no better than chance."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import save_tiny_encoder
from tiny_generator import make_generator
from tiny_reader import make_reader

from quoth.cli.main import main
from quoth.engine.engine import Engine
from quoth.errors import ConfigError, MissingExtra
from quoth.models.query_generator.generator import SHIPPED, QueryGenerator
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import Reader
from quoth.records import Document, Query, SearchRequest
from quoth.search.rerank_config import RerankConfig

BIRDS = [
    {"_id": "owl", "title": "Barn owl", "text": "An owl hunts. The owl is a bird of the night."},
    {"_id": "raven", "title": "Raven", "text": "A raven watches an owl at dusk."},
    {"_id": "hen", "title": "Hen", "text": "A hen sleeps in the barn at night with an owl."},
    {"_id": "swift", "title": "Swift", "text": "Swifts sleep on the wing, no owl does."},
]
Quoth = Callable[..., Any]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny_encoder(folder / "encoder")
    make_generator(folder / "base").save(folder / "generator")
    make_reader(folder / "reading")
    return folder


@pytest.fixture
def settings(models: Path) -> dict[str, dict[str, Any]]:
    return {
        "dense": {"encoder": str(models / "encoder")},
        "rerank": {"by": "likelihood", "generator": str(models / "generator")},
    }


@pytest.fixture
def engine(tmp_path: Path, settings: dict[str, dict[str, Any]]) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth", settings=[settings]) as opened:
        opened.add_documents(
            Document(each["_id"], {"title": (each["title"],), "text": (each["text"],)})
            for each in BIRDS
        )
        opened.encode()
        yield opened


@pytest.fixture
def quoth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], models: Path
) -> Quoth:
    """Run a command in this process; gives its exit code, output and messages."""

    def run(*arguments: object, generator: str = str(models / "generator")) -> tuple[int, str, str]:
        reading = ("--rerank.by", "likelihood", "--rerank.generator", generator)
        chosen = ("--dense.encoder", str(models / "encoder"), *reading)
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments), *chosen])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


@pytest.mark.parametrize("name", ["lexical", "dense", "hybrid"])
def test_scores_are_what_explanations_add_up_to(engine: Engine, name: str) -> None:
    hits = engine.search("owl at night", k=3, searcher=name, rerank=True)
    docids = [hit.docid for hit in hits]
    parts = engine.explain("owl at night", docids, k=3, searcher=name, rerank=True)
    run = engine.run([Query("q", "owl at night")], k=3, searcher=name, rerank=True)
    assert run.name == f"{name}-reranked" and [hit.docid for hit in run.hits["q"]] == docids
    for hit, part in zip(hits, parts, strict=True):
        assert part.value == pytest.approx(hit.score, abs=1e-6)
        assert sum(leaf.value for leaf in part.parts) == pytest.approx(hit.score, abs=1e-6)
        assert hit.passage is not None and hit.passage.docid == hit.docid
        assert part.parts[1].label.startswith("log p(query | passage): -")


def test_likelihoods_are_those_of_the_generator_for_title_and_body(
    engine: Engine, models: Path
) -> None:
    generator = QueryGenerator.load(str(models / "generator"))
    text = "An owl hunts. The owl is a bird of the night."
    (expected,) = generator.score(["barn owl"], [f"Barn owl\n{text}"])
    (part,) = engine.explain("barn owl", ["owl"], rerank=True)
    assert f"log p(query | passage): {expected:.1f} scaled" in part.parts[1].label


def test_a_likelihood_of_full_weight_reorders_by_itself(
    tmp_path: Path, settings: dict[str, dict[str, Any]], engine: Engine, models: Path
) -> None:
    settings["rerank"]["likelihood_weight"] = 1.0
    generator = QueryGenerator.load(str(models / "generator"))
    texts = {each["_id"]: f"{each['title']}\n{each['text']}" for each in BIRDS}
    likely = generator.score(["an owl"] * len(texts), list(texts.values()))
    scores = dict(zip(texts, likely, strict=True))
    with Engine.open(tmp_path / "birds.quoth", settings=[settings]) as other:
        found = [hit.docid for hit in other.search("an owl", rerank=True)]
    assert found == sorted(found, key=lambda docid: -scores[docid]) and len(found) == 4
    assert found != [hit.docid for hit in engine.search("an owl", rerank=False)]


def test_the_generator_is_loaded_once_for_all_searchers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loads = QueryGenerator.load, []

    def count(name: str) -> QueryGenerator:
        loads.append(name)
        return load(name)

    monkeypatch.setattr(QueryGenerator, "load", count)
    for name in ("lexical", "dense", "hybrid"):
        engine.search("owl", searcher=name, rerank=True)
    engine.add_documents([Document("new", {"text": ("another owl",)})])
    engine.search("owl", rerank=True)
    assert len(loads) == 1


def test_a_generator_that_is_not_there_is_named(
    tmp_path: Path, settings: dict[str, dict[str, Any]], engine: Engine
) -> None:
    settings["rerank"]["generator"] = "no-such-generator"
    with Engine.open(tmp_path / "birds.quoth", settings=[settings]) as other:
        assert other.search("owl")
        with pytest.raises(ConfigError, match="there is no query generator 'no-such-generator'"):
            other.search("owl", rerank=True)


def test_weights_that_are_not_installed_say_what_to_install(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.config.rerank.generator != SHIPPED == RerankConfig().generator
    monkeypatch.setattr("quoth.models.pretrained._SHIPPED", "no_such_package")
    with (
        Engine.open(tmp_path / "birds.quoth") as other,
        pytest.raises(ConfigError, match="not installed; run pip install quoth-weights"),
    ):
        other.search("owl", rerank=True)


def test_searching_without_reranking_imports_no_generator(engine: Engine, tmp_path: Path) -> None:
    code = (
        "import sys; from quoth.engine.engine import Engine;"
        "engine = Engine.open(sys.argv[1]); assert engine.search('owl');"
        "print([m for m in sys.modules if m == 'torch' or 'query_generator.g' in m])"
    )
    folder = str(tmp_path / "birds.quoth")
    done = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_search_reranks_on_the_command_line(engine: Engine, tmp_path: Path, quoth: Quoth) -> None:
    folder = tmp_path / "birds.quoth"
    asked = ("search", folder, "an owl at night", "--rerank", "--rerank.depth", 2, "--explain")
    code, out, _err = quoth(*asked, "--json")
    hits = json.loads(out)["hits"]
    assert code == 0 and len(hits) == 4
    labels = [hit["explanation"]["parts"][-1]["label"] for hit in hits]
    assert [label.startswith("log p(query | passage)") for label in labels] == [True] * 2 + [
        False
    ] * 2
    assert all("below the 2 that are reranked" in label for label in labels[2:])
    code, out, _err = quoth(*asked)
    assert code == 0 and "log p(query | passage): -" in out
    for option, by in (("--no-rerank", ""), ("--rerank", "likelihood")):
        _code, out, _err = quoth("search", folder, "an owl", option, "--json")
        assert json.loads(out)["reranked_by"] == by


def test_runs_and_evaluations_rerank_on_the_command_line(
    engine: Engine, tmp_path: Path, quoth: Quoth
) -> None:
    folder, queries = tmp_path / "birds.quoth", tmp_path / "queries.jsonl"
    queries.write_text('{"_id": "1", "text": "owl"}\n{"_id": "2", "text": "hen night"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\towl\t1\n2\then\t1\n")
    written, words = tmp_path / "out.run", ("--with", "lexical", "-k", 3)
    code, _out, err = quoth("run", folder, queries, "--out", written, "--rerank", *words)
    assert code == 0, err
    assert {line.split()[-1] for line in written.read_text().splitlines()} == {"lexical-reranked"}
    judged = ("--queries", queries, "--qrels", tmp_path / "qrels.tsv", "--rerank", "--json")
    code, out, err = quoth("evaluate", folder, *judged, *words)
    assert code == 0, err
    assert json.loads(out)["searcher"] == "lexical-reranked"


def test_a_missing_generator_is_one_line_on_the_command_line(
    engine: Engine, tmp_path: Path, quoth: Quoth
) -> None:
    code, out, err = quoth("search", tmp_path / "birds.quoth", "owl", "--rerank", generator="nix")
    assert code != 0 and out == "" and err.startswith("error: there is no query generator 'nix'")


def test_a_missing_library_says_what_needs_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "quoth.models.query_generator.generator", None)
    with pytest.raises(
        MissingExtra, match=r'^query generators need .*pip install "quoth\[neural\]"'
    ):
        engine.search("owl", rerank=True)


# --- by the cross-encoder -------------------------------------------------------------------------


@pytest.fixture
def reading(tmp_path: Path, engine: Engine, models: Path) -> Iterator[Engine]:
    """Open the collection with a cross-encoder, which `auto` then uses."""
    reader = str(models / "reading" / "reader")
    settings = {"dense": {"encoder": str(models / "encoder")}, "rerank": {"reader": reader}}
    with Engine.open(tmp_path / "birds.quoth", settings=[settings]) as opened:
        yield opened


def test_auto_reranks_what_is_fused_and_says_so(reading: Engine) -> None:
    found = reading.find(SearchRequest("owl at night", explain=True))
    assert (found.searcher, found.reranked_by) == ("hybrid", "cross-encoder")
    for each in found.hits:
        assert {"lexical", "dense", "cross-encoder"} >= set(each.found_by) >= {"cross-encoder"}
        assert each.explanation is not None and each.explanation.label == "hybrid-reranked"
        assert each.explanation.parts[1].label.startswith("cross-encoder: ")
    assert reading.run([Query("q", "owl at night")]).name == "hybrid-reranked"
    plain = reading.find(SearchRequest("owl at night", searcher="hybrid"))
    assert plain.reranked_by == "" and "cross-encoder" not in plain.hits[0].found_by
    assert reading.find(SearchRequest("owl at night", rerank=False)).reranked_by == ""


def test_what_the_cross_encoder_reads_is_title_and_body(reading: Engine, models: Path) -> None:
    reader = Reader.load(str(models / "reading" / "reader"))
    text = TitledText("Barn owl", "An owl hunts. The owl is a bird of the night.")
    (expected,) = reader.score(["barn owl"], [text])
    (part,) = reading.explain("barn owl", ["owl"])
    assert f"cross-encoder: {expected:.1f} scaled" in part.parts[1].label
    assert reading._models.reader(str(models / "reading" / "reader")) is reader, "one for all"


def test_encoding_calibrates_the_share_and_another_model_has_none(
    reading: Engine, models: Path, tmp_path: Path
) -> None:
    found = reading.encode().rerank
    assert found is not None and found.share == 0.4 and "too few" in found.reason
    searchers = reading.make_searchers(reading._reader())
    kept = searchers.calibration
    assert kept is not None and kept.rerank == found
    searchers.keep_calibration(replace(kept, rerank=replace(found, share=0.7)))
    assert reading.make_searchers(reading._reader()).rerank_share == 0.7
    other = make_reader(tmp_path / "other", seed=1).folder
    config = replace(reading.config, rerank=RerankConfig(reader=str(other)))
    assert reading.make_searchers(reading._reader(), config).rerank_share == 0.4
    searchers.keep_calibration(replace(kept, rerank=replace(found, share=0.0)))
    reading._let_go()
    assert reading.find(SearchRequest("owl")).reranked_by == "", "no share, nothing to read"


def test_nobody_reranks_where_that_is_set(
    tmp_path: Path, engine: Engine, settings: dict[str, dict[str, Any]]
) -> None:
    settings["rerank"]["by"] = "none"
    with Engine.open(tmp_path / "birds.quoth", settings=[settings]) as other:
        assert other.find(SearchRequest("owl")).reranked_by == ""
        with pytest.raises(ConfigError, match=r"rerank.by is none, .* set it to cross-encoder"):
            other.search("owl", rerank=True)
