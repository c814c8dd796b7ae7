"""`quoth learn` as a user meets it: documents in, a better search or the old one out."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from learning_worlds import copy_words, make_collection, make_documents, save_models

from quoth.cli.main import main
from quoth.engine.engine import Engine
from quoth.errors import ConfigError, CorpusError
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn import job
from quoth.jobs.learn.plan import LearnRequest
from quoth.jobs.report.summary import ORDER
from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.generator import QueryGenerator
from quoth.training.retriever import run_packed as packed_training
from quoth.training.retriever.curriculum import CurriculumTrained, StageTrained
from quoth.training.retriever.run_packed import main as run_packed

OWN_WRITING = QueryGenerator.generate
VARYING = {"seconds", "peak_megabytes"}


@dataclass(frozen=True)
class World:
    """A collection's origin and the models to learn with."""

    collection: Path
    encoder: Path
    generator: Path

    def settings(self, **learn: Any) -> dict[str, dict[str, Any]]:
        usual = {
            "generator": str(self.generator),
            "method": "none",
            "queries_per_passage": 3,
            "corpus_queries": 3,
            "warm_up_steps": 40,
            "warm_up_batch": 16,
            "learning_rate": 2e-3,
            "held_out": 0.3,
            "judged_queries": 40,
            "device": "cpu",
        }
        return {
            "dense": {"encoder": str(self.encoder)},
            "learn": usual | learn,
            "fusion": {"method": "convex", "weight": 1.0},  # BM25 knows it all here
        }

    def copy(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.collection, folder / "birds.quoth"))

    def learn(
        self, collection: Path, request: LearnRequest | None = None, **learn: Any
    ) -> dict[str, Any] | None:
        with Engine.open(collection, settings=[self.settings(**learn)]) as engine:
            report = job.learn(engine, request or LearnRequest()).report
        return None if report is None else report.to_record()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    encoder, generator = save_models(folder)
    return World(make_collection(folder / "birds.quoth", make_documents()), encoder, generator)


@pytest.fixture(scope="module", autouse=True)
def telling_queries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryGenerator, "generate", copy_words)
        yield


@pytest.fixture(scope="module")
def direct(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A collection that learnt undisturbed, for one test to move away, and the report."""
    collection = world.copy(tmp_path_factory.mktemp("direct"))
    report = world.learn(collection)
    assert report is not None and report["installed"], "resuming must cover installing"
    return collection, report


def without_times(value: Any) -> Any:
    """Leave out what differs from run to run."""
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name not in VARYING}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def searches(collection: Path, settings: Any = ()) -> list[Any]:
    with Engine.open(collection, settings=settings) as engine:
        return [
            [(hit.docid, hit.score) for hit in engine.search(text, k=5, searcher=name)]
            for text in ("karel mobor", "tinix rugat sefum", "lodol")
            for name in ("lexical", "dense", "hybrid")
        ]


def test_learning_helps_is_installed_and_reports(
    direct: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    collection, report = direct
    assert report["encoder_after"] == "learned-1" and "the rule:" in report["reason"]
    known = {row["searcher"]: row for row in report["quality"] if row["queries"] == "known items"}
    assert known["dense"]["after"]["mean"] > known["dense"]["before"]["mean"]
    assert known["lexical"]["difference"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert report["leak"]["judged queries that were trained on"] == 0
    assert "no label" in report["supervision"] or "labelled" in report["supervision"]
    names = [stage["name"] for stage in report["stages"]]
    assert names == ["warm-up" if name == "training" else name for name in ORDER]
    assert report["stages"][3]["steps"] > 0 and report["stages"][3]["curve"]

    assert json.loads((collection / "learning" / "report.json").read_text()) == report
    assert "<svg" in (collection / "learning" / "report.html").read_text()
    with Engine.open(collection) as engine:  # no settings: the collection knows its encoder
        assert engine.status()["indexes"]["dense"]["encoder"] == "learned-1"
        assert len(engine.search("karel mobor", searcher="hybrid")) == 10
        store = engine._reader()
        named = [docid for docid in engine.docids() if store.identifiers(docid)]
    assert len(named) == report["identifiers"]["documents"] > 0
    moved = Path(shutil.move(collection, tmp_path / "elsewhere.quoth"))
    assert searches(moved)


def test_two_runs_with_one_seed_give_one_report(
    world: World, direct: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    _collection, report = direct
    again = world.learn(world.copy(tmp_path))
    assert without_times(again) == without_times(report)
    other = world.learn(world.copy(tmp_path / "other"), seed=5)
    assert without_times(other) != without_times(report)


def _interrupt(monkeypatch: pytest.MonkeyPatch, *places: tuple[str, str]) -> list[Any]:
    """Raise KeyboardInterrupt once at each place: before or after a stage is noted."""
    whole, left = JobFolder.finish, list(places)

    def finish(self: JobFolder, stage: str, found: Any) -> Any:
        if ("before", stage) in left:
            left.remove(("before", stage))
            raise KeyboardInterrupt
        noted = whole(self, stage, found)
        if ("after", stage) in left:
            left.remove(("after", stage))
            raise KeyboardInterrupt
        return noted

    monkeypatch.setattr(JobFolder, "finish", finish)
    return left


def _destroy(network: GlowNetwork, *_rest: Any, **_named: Any) -> CurriculumTrained:
    chance = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance))
    stages = (StageTrained("warm-up", 1, 1, (), "", 0.1, 1.0),)
    return CurriculumTrained(network, None, stages)


def test_a_model_that_is_worse_is_kept_aside_and_search_stays(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = world.copy(tmp_path)
    with Engine.open(collection, settings=[world.settings()]) as engine:
        engine.encode()
    before = searches(collection, [world.settings()])
    kept = {
        path: path.read_bytes()
        for folder in ("dense", "hybrid")
        for path in (collection / folder).rglob("*")
        if path.is_file()
    }
    monkeypatch.setattr(packed_training, "run_curriculum", _destroy)
    report = world.learn(collection)
    assert report is not None and not report["installed"] and "kept aside" in report["reason"]
    assert report["encoder_after"] == report["encoder_before"]
    assert [path.name for path in (collection / "models").iterdir()] == ["learned-1.aside"]
    assert searches(collection, [world.settings()]) == before
    with Engine.open(collection) as engine:
        assert engine.config.dense.encoder == "all-MiniLM-L6-v2"
    changed = [path for path, content in kept.items() if path.read_bytes() != content]
    assert all("dense" in str(path) and path.suffix == ".json" for path in changed)  # change number


def test_packed_trained_elsewhere_and_unpacked_equals_learning_here(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"method": "distil", "steps": 3, "batch_size": 6, "k": 3, "max_subwords": 64}
    report = world.learn(world.copy(tmp_path / "here"), **both)
    collection, packed = world.copy(tmp_path / "there"), tmp_path / "birds.packed"
    assert world.learn(collection, LearnRequest(pack=packed), **both) is None
    models = ["--encoder", str(world.encoder), "--generator", str(world.generator)]
    given = [str(packed), "--out", str(tmp_path / "out"), *models, "--device", "cpu"]
    assert run_packed(given) == 0
    assert "--unpack" in capsys.readouterr().out
    found = world.learn(collection, LearnRequest(unpack=tmp_path / "out"), **both)
    assert without_times(found) == without_times(report)

    packed.write_bytes(packed.read_bytes()[:-1])
    assert run_packed(given) == 2
    assert "no whole passage set" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="has packed nothing"):
        world.learn(world.copy(tmp_path / "other"), LearnRequest(unpack=tmp_path / "out"))


def test_a_few_labelled_pairs_continue_from_the_model_in_use(world: World, tmp_path: Path) -> None:
    collection = world.copy(tmp_path)
    pairs = tmp_path / "pairs.jsonl"
    lines = []
    for at, document in enumerate(make_documents()[:30]):
        words = document.fields["text"][0].split()[:4]
        passage: Any = {"docid": document.docid} if at % 2 else document.fields["text"][0]
        lines.append(json.dumps({"query": " ".join(words), "passage": passage}))
    pairs.write_text("\n".join(lines) + "\n")
    report = world.learn(collection, LearnRequest(pairs=pairs), warm_up_batch=4)
    assert report is not None
    assert report["num_queries_by_kind"] == {"labelled": 24}
    labelled = [row for row in report["quality"] if row["queries"] == "labelled pairs"]
    assert len(labelled) == 3 and all(row["num_queries"] == 6 for row in labelled)
    assert "24 labelled queries" in report["supervision"]
    assert report["identifiers"] == {}

    pairs.write_text('{"query": "owl", "passage": {"docid": "nobody"}}\n' * 6)
    with pytest.raises(CorpusError, match="not in this collection"):
        world.learn(collection, LearnRequest(pairs=pairs))
    with pytest.raises(CorpusError, match="is no file"):
        world.learn(collection, LearnRequest(pairs=tmp_path / "none.jsonl"))


@pytest.fixture
def quoth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def test_the_command(
    world: World,
    tmp_path: Path,
    quoth: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collection = world.copy(tmp_path)
    given = [
        *("learn", collection, "--minutes", "5", "--seed", "1", "--device", "cpu"),
        *("--dense.encoder", world.encoder, "--learn.generator", world.generator),
        *("--learn.warm-up-steps", "4", "--learn.warm-up-batch", "8", "--learn.method", "none"),
        *("--learn.held-out", "0.3"),
    ]
    monkeypatch.setattr(QueryGenerator, "generate", OWN_WRITING)
    _interrupt(monkeypatch, ("before", "judge"))
    code, out, err = quoth(*given)
    assert (
        code == 130 and out == "" and "the plan: about" in err and "the same command resumes" in err
    )
    code, out, err = quoth(*given, "--report", tmp_path / "page.html")
    assert code == 0, err
    assert "the plan" not in err  # it went on
    assert "known items" in out and "pseudo-queries" in out and "page.html" in err
    assert "<svg" in (tmp_path / "page.html").read_text()
    code, out, err = quoth(*given, "--json")
    assert code == 0 and json.loads(out)["seed"] == 1
    code, out, err = quoth(*given)
    assert code == 0 and "--restart learns again" in err.replace("\n", " ")
    code, out, err = quoth(*given, "--pack", "a", "--unpack", "b")
    assert code == 2 and "not both" in err
    code, out, err = quoth("learn", tmp_path / "nowhere.quoth")
    assert code == 3


def test_changed_settings_or_documents_begin_anew(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = world.copy(tmp_path)
    left = _interrupt(monkeypatch, ("after", "queries"), ("after", "queries"))
    with pytest.raises(KeyboardInterrupt):
        world.learn(collection)
    told: list[str] = []
    with (
        Engine.open(collection, settings=[world.settings(temperature=0.9)]) as engine,
        pytest.raises(KeyboardInterrupt),
    ):
        job.learn(engine, LearnRequest(), note=told.append)
    assert left == []  # queries were written again
    assert any("learn.temperature" in each for each in told)
    with Engine.open(collection) as engine:
        engine.add_documents(make_documents(51)[50:])
    report = world.learn(collection, temperature=0.9)
    assert report is not None and report["num_documents"] == 51


def test_too_few_documents_are_refused(world: World, tmp_path: Path) -> None:
    small = make_collection(tmp_path / "small.quoth", make_documents(4))
    with pytest.raises(ConfigError, match="too few to learn from"):
        world.learn(small)
