"""`quoth train` and `quoth phrases build` on shards: as on the collection in one piece."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from learning_worlds import make_collection, make_documents, save_models
from tiny_language_model import save_language_model

from quoth.cli.main import main
from quoth.collection.shards import open_shards
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.search.generative.state import FOLDER, find_model
from quoth.search.searcher import ignore_progress
from quoth.settings.stored import ANSWER, GENERATIVE
from quoth.shards import generative, installing
from quoth.shards.engine import ShardedEngine
from quoth.shards.installing import is_installing
from quoth.shards.learned import SAMPLE
from quoth.shards.split_and_merge import split_collection

pytestmark = pytest.mark.usefixtures("one_thread")

COUNT = 3
ORIGIN = "pseudo-query"
Quoth = Callable[..., tuple[int, str, str]]


def _names(document: Document) -> list[str]:
    """Name a document by the telling words of each of its sentences."""
    own = set(document.fields["title"][0].split())
    sentences = document.fields["text"][0].lower().split(".")
    found = [" ".join(word for word in each.split() if word in own) for each in sentences]
    return [text for text in dict.fromkeys(found) if text]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a collection in one piece, the same in shards, and tiny models."""
    folder = tmp_path_factory.mktemp("world")
    save_models(folder)
    save_language_model(folder / "language-model")
    documents = make_documents()
    whole = make_collection(folder / "birds.quoth", documents)
    with Engine.open(whole) as engine, engine.writing() as (store, _config):
        store.put_identifiers({each.docid: _names(each) for each in documents}, origin=ORIGIN)
    split_collection(whole, folder / "birds.shards", count=COUNT)
    return folder


@pytest.fixture
def shards(world: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world / "birds.shards", tmp_path / "birds.shards"))


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    """Run a command in this process; gives its exit code, output and messages."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def _pixar(world: Path, collection: Path) -> tuple[object, ...]:
    return (
        *("train", "pixar", collection, "--dense.encoder", world / "encoder", "--device", "cpu"),
        *("--generative.generator", world / "generator", "--set", "pixar.steps=30"),
        *("--set", "pixar.batch-size=16"),
    )


def _settings(folder: Path, name: str) -> list[Any]:
    found = []
    for path in open_shards(folder).shards:
        with contextlib.closing(Store.open(path)) as store:
            found.append(store.setting(name))
    return found


@pytest.fixture(scope="module")
def trained(world: Path) -> Path:
    """Return shards that generative search was trained for, with the sample it was trained on."""
    folder = Path(shutil.copytree(world / "birds.shards", world / "trained.shards"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["quoth", *map(str, _pixar(world, folder))])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return folder


@pytest.fixture
def prepared(trained: Path, shards: Path) -> Path:
    """Return shards that use no model so far, beside a sample that one was trained on."""
    shutil.copytree(trained / SAMPLE, shards / SAMPLE)
    return shards


def test_generative_search_is_trained_for_all_shards(trained: Path, tmp_path: Path) -> None:
    shards = Path(shutil.copytree(trained, tmp_path / "birds.shards"))
    kept = _settings(shards, GENERATIVE)
    assert kept[0] is not None and kept == [kept[0]] * COUNT
    with ShardedEngine.open(shards) as engine, Engine.open(shards / SAMPLE) as sample:
        assert engine.verify().is_clean
        for document in make_documents()[:8]:
            (title,) = document.fields["title"]
            found = engine.search(title, k=5, searcher="generative")
            expected = sample.search(title, k=5, searcher="generative")
            assert document.docid == found[0].docid
            assert [hit.docid for hit in found] == [hit.docid for hit in expected]
            # the sample was indexed with the model before it was saved in half precision
            scores = [pytest.approx(hit.score, rel=1e-3) for hit in expected]
            assert [hit.score for hit in found] == scores
        engine.add_documents([Document("new", {"title": ("dulam pesur vizet",), "text": ("x",)})])
        hits = engine.search("dulam pesur vizet", k=5, searcher="generative")
        assert "new" in [hit.docid for hit in hits], "what is added later needs no training"


def test_the_same_call_again_trains_and_installs_nothing(
    world: Path, trained: Path, quoth: Quoth
) -> None:
    before = {path: path.stat().st_ino for path in trained.glob(f"shard-*/{FOLDER}/*/*")}
    code, out, err = quoth(*_pixar(world, trained), "--json")
    assert code == 0 and "shards use the model" not in err
    assert json.loads(out)["collection"] == str(trained) and json.loads(out)["num_documents"] == 50
    assert before == {path: path.stat().st_ino for path in trained.glob(f"shard-*/{FOLDER}/*/*")}


def test_documents_that_were_named_for_the_sample_keep_their_names(
    prepared: Path, quoth: Quoth
) -> None:
    named = {"d001": ["night bird"], "d002": ["of the barn", "white owl"]}
    with Engine.open(prepared / SAMPLE) as engine, engine.writing() as (store, _config):
        store.put_identifiers(named, origin=ORIGIN)
    shards = open_shards(prepared)
    for _again in range(2):
        generative.bring_back_identifiers(
            shards, prepared / SAMPLE, settings=[], progress=ignore_progress
        )
        changes = []
        for path in shards.shards:
            with contextlib.closing(Store.open(path)) as store:
                changes.append(store.change)
                for docid in store.rows(list(named)):
                    assert store.identifiers(docid) == tuple(named[docid])
    with ShardedEngine.open(prepared) as engine:
        assert engine.status()["change"] == sum(changes), "nothing was put a second time"


def test_a_failure_before_it_is_decided_leaves_search_as_it_was(
    world: Path, prepared: Path, quoth: Quoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(generative, "begin_installing", fail)
        code, _out, err = quoth(*_pixar(world, prepared))
        assert code == 3 and "No space left" in err
    paths = open_shards(prepared).shards
    assert [find_model(path, "") for path in paths] == [None] * COUNT
    assert quoth("search", prepared, "owl", "--with", "lexical")[0] == 0
    code, _out, err = quoth(*_pixar(world, prepared))
    assert code == 0 and "already trained" in err and f"all {COUNT} shards use the model" in err
    assert all(find_model(path, "") for path in paths)


def test_a_kill_after_it_is_decided_is_finished_by_whoever_comes_next(
    world: Path, prepared: Path, quoth: Quoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, done = installing.put_in_place, []

    def put_one(unfinished: Path, folder: Path) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(folder)
        put(unfinished, folder)

    with monkeypatch.context() as patch:
        patch.setattr(installing, "put_in_place", put_one)
        assert quoth(*_pixar(world, prepared))[0] == 130
    assert is_installing(open_shards(prepared))
    (title,) = make_documents()[3].fields["title"]
    code, out, err = quoth("search", prepared, title, "--with", "generative", "--json")
    assert code == 0, err
    assert json.loads(out)["hits"][0]["docid"] == make_documents()[3].docid
    assert not is_installing(open_shards(prepared))
    assert all(find_model(path, "") for path in open_shards(prepared).shards)


def test_phrases_are_those_of_the_collection_in_one_piece(
    world: Path, tmp_path: Path, quoth: Quoth
) -> None:
    for name in ("birds.quoth", "birds.shards"):
        given = ("phrases", "build", world / name, "--size", 400, "--out", tmp_path / name)
        code, _out, err = quoth(*given)
        assert code == 0, err
    for path in (tmp_path / "birds.quoth").rglob("*"):
        if path.is_file():
            inner = path.relative_to(tmp_path / "birds.quoth")
            assert path.read_bytes() == (tmp_path / "birds.shards" / inner).read_bytes(), inner


def test_a_language_model_is_trained_and_answers_for_all_shards(
    world: Path, shards: Path, tmp_path: Path, quoth: Quoth
) -> None:
    small = (
        *("--steps", "2", "--device", "cpu", "--set", "training.sentences=8"),
        *("--set", "training.judged=4", "--answer.model", world / "language-model"),
    )
    reports = []
    for collection, out in ((world / "birds.quoth", "whole"), (shards, "parts")):
        given = ("train", "dynamic-lm", collection, "--out", tmp_path / out, *small)
        code, told, err = quoth(*given, "--json")
        assert code == 0, err
        reports.append(json.loads(told))
    assert reports[0]["losses"] == reports[1]["losses"], "the same documents in the same order"
    assert reports[0]["after"] == reports[1]["after"]

    given = ("train", "dynamic-lm", shards, "--out", tmp_path / "parts", *small, "--install")
    code, _told, err = quoth(*given)
    assert code == 0, err
    assert _settings(shards, ANSWER) == [{"model": str(tmp_path / "parts")}] * COUNT
    asked = ("ask", shards, "Which bird is it?", "--json", "--threshold", 1)
    code, told, err = quoth(*asked, "--decoding.max-subwords", 8)
    assert code == 0 and json.loads(told)["text"], err


def test_a_model_inside_the_collection_is_given_to_every_shard(
    world: Path, shards: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(world / "language-model", shards / "mine"))
    installing.install_answering(open_shards(shards), model, wait_seconds=1.0)
    assert _settings(shards, ANSWER) == [{"model": "models/mine"}] * COUNT
    moved = shards.rename(tmp_path / "moved.shards")
    shutil.rmtree(moved / "mine")
    with ShardedEngine.open(moved) as engine:
        named = Path(engine.config.answer.model)
    assert named == moved / "shard-00000" / "models" / "mine"
    assert (named / "config.json").read_bytes() == (
        world / "language-model" / "config.json"
    ).read_bytes()
