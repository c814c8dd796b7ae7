"""`quoth train pixar` as a user meets it: documents in, `search --with generative` out."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learning_worlds import make_collection, make_documents, save_models

from quoth.cli.main import main
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.jobs.pixar import shortlist, stages
from quoth.jobs.pixar.job import WORK
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.head import HeadVectors
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.pretrained import save_pretrained
from quoth.records import Document

pytestmark = pytest.mark.usefixtures("one_thread")

Quoth = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class World:
    """A collection whose documents have identifiers, and the models to train with."""

    collection: Path
    encoder: Path
    generator: Path

    def copy(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.collection, folder / "birds.quoth"))

    def options(self, *more: object) -> list[object]:
        return [
            *("--dense.encoder", self.encoder, "--device", "cpu"),
            *("--generative.generator", self.generator, "--set", "pixar.steps=30"),
            *("--set", "pixar.batch-size=16", "--set", "checkpoint_every=5", *more),
        ]


def sentence_names(document: Document) -> list[str]:
    """Name a document by the telling words of each of its sentences."""
    own = set(document.fields["title"][0].split())
    sentences = document.fields["text"][0].lower().split(".")
    found = [" ".join(word for word in each.split() if word in own) for each in sentences]
    return [text for text in dict.fromkeys(found) if text]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    encoder, generator = save_models(folder)
    documents = make_documents()
    collection = make_collection(folder / "birds.quoth", documents)
    with Engine.open(collection) as engine, engine._writing() as (store, _config):
        named = {each.docid: sentence_names(each) for each in documents}
        store.put_identifiers(named, origin="pseudo-query")
    return World(collection, encoder, generator)


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def best(out: str) -> list[str]:
    return [hit["docid"] for hit in json.loads(out)["hits"]]


def test_trained_searched_extended_and_searched_again(
    world: World, tmp_path: Path, quoth: Quoth
) -> None:
    collection = world.copy(tmp_path)
    code, out, err = quoth("search", collection, "karel", "--with", "generative")
    assert code == 3 and "quoth train pixar" in err
    code, out, err = quoth("train", "pixar", collection, *world.options())
    assert code == 0, err
    assert "the plan: about" in err and "RR@10 on held-out queries" in out
    assert "untrained" in out and "--with generative" in " ".join(out.split())

    document = make_documents()[7]
    query = document.fields["title"][0]
    code, out, err = quoth("search", collection, query, "--with", "generative", "--json")
    assert code == 0, err
    assert best(out)[0] == document.docid

    new = tmp_path / "new.jsonl"
    new.write_text(
        json.dumps({"docid": "new", "title": "dulam pesur vizet", "text": "Quiet."}) + "\n"
    )
    settings = tmp_path / "quoth.toml"
    settings.write_text('[generative]\ngenerator = "none"\n')
    model = collection / "generative" / "pixar" / "artifact.json"
    trained = model.read_bytes()
    code, out, err = quoth("add", collection, new, "--config", settings)
    assert code == 0, err
    asked = ("dulam pesur vizet", "--with", "generative", "--json", "--config", settings)
    code, out, err = quoth("search", collection, *asked)
    assert code == 0, err
    assert "new" in best(out) and model.read_bytes() == trained

    code, out, err = quoth("train", "pixar", collection, *world.options(), "--json")
    assert code == 0, err  # another document, so it was trained again
    assert json.loads(out)["num_documents"] == 51


def test_a_collection_is_searched_with_the_start_without_training(
    world: World, tmp_path: Path, quoth: Quoth
) -> None:
    config = PixarConfig(num_slots=6, row_lengths=True, unit_rows=False, max_query_subwords=24)
    made = Pixar.start(
        str(world.encoder), num_phrases=1, config=config, phrase_texts=["x"], counts=np.arange(3)
    )
    save_pretrained(tmp_path / "start", made.network, encoder=made.encoder)
    collection = make_collection(tmp_path / "new.quoth", make_documents())
    options = world.options("--no-generator", "--pixar.start", tmp_path / "start")
    code, out, err = quoth("train", "pixar", collection, *options, "--pixar.train", "false")
    assert code == 0, err
    assert "without training, as was asked for" in " ".join(out.split())
    assert "the plan" not in err
    document = make_documents()[7]
    sentence = document.fields["text"][0].split(".")[0]
    query = f"{document.fields['title'][0]} {sentence}."
    code, out, err = quoth("search", collection, query, "--with", "generative", "--json")
    assert code == 0 and best(out)[0] == document.docid, err


def test_a_shortlist_is_learnt_once_for_each_model(
    world: World, tmp_path: Path, quoth: Quoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, learnt = shortlist.make_shortlist, []

    def make(*arguments: Any, **named: Any) -> Any:
        learnt.append(named["config"].method)
        return whole(*arguments, **named)

    monkeypatch.setattr(shortlist, "make_shortlist", make)
    collection = world.copy(tmp_path)
    chosen = ("--pixar.shortlist", "centroids", "--pixar.num_lists", "2", "--json")
    paper = ("--pixar.slot_kind", "mask", "--pixar.tail", "pad")
    code, out, err = quoth("train", "pixar", collection, *world.options(*chosen, *paper))
    assert code == 0, err
    assert learnt.count("centroids") == 2  # untrained and trained; installing learns none
    assert json.loads(out)["method"] == "centroids"
    trained = Pixar.load(collection / "generative" / "pixar" / "model").config
    assert (trained.slots, trained.tail) == ("mask", "pad")
    code, out, err = quoth("search", collection, "karel", "--with", "generative", "--json")
    assert code == 0, err


def test_a_training_that_hurts_is_not_installed(
    world: World, tmp_path: Path, quoth: Quoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_train = stages.train_pixar

    def destroy(*arguments: Any, **named: Any) -> Any:
        made, report = whole_train(*arguments, **named)
        chance = np.random.default_rng(0)
        rows = chance.standard_normal(made.head.rows.shape, dtype=np.float32)
        made.head = HeadVectors(rows, made.head.bias)
        return made, report

    monkeypatch.setattr(stages, "train_pixar", destroy)
    collection = world.copy(tmp_path)
    code, out, err = quoth("train", "pixar", collection, *world.options())
    assert code == 0 and "untrained, as training did not better it" in out.replace("\n", " "), err
    report = json.loads((collection / WORK / "report.json").read_text())
    (judged,) = report["judged"]
    assert report["installed"] == "untrained" and judged["trained"] < judged["untrained"]
    document = make_documents()[7]
    asked = (document.fields["title"][0], "--with", "generative", "--json")
    assert best(quoth("search", collection, *asked)[1])[0] == document.docid


def test_keywords_are_their_own_identifiers_and_need_no_generator(
    world: World, tmp_path: Path, quoth: Quoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [each.fields["title"][0] for each in make_documents(60, seed=4)]
    keywords = [Document(f"k{at:02}", {"title": (text,)}) for at, text in enumerate(texts)]
    collection = make_collection(tmp_path / "keywords.quoth", keywords)
    pairs = tmp_path / "pairs.jsonl"
    lines = [
        {"query": f"lodol {text.split()[0]}", "passage": {"docid": f"k{at:02}"}}
        for at, text in enumerate(texts[:20])
    ]
    pairs.write_text("".join(json.dumps(each) + "\n" for each in lines))
    given = ("--no-generator", "--pairs", pairs, "--json", "--set", "judged_queries=10")
    code, out, err = quoth("train", "pixar", collection, *world.options(*given))
    assert code == 0, err
    report = json.loads(out)
    judged = {each["queries"]: each["num_queries"] for each in report["judged"]}
    assert judged == {"corrupted names": 10, "labelled pairs": 4}
    assert report["num_inputs"] >= 60 and report["num_identifiers"] == len(set(texts))
    with closing(Store.open(collection)) as store:
        assert not any(store.identifiers(each.docid) for each in keywords)
    code, out, err = quoth("search", collection, texts[3], "--with", "generative", "--json")
    assert code == 0 and best(out)[0] == f"k{texts.index(texts[3]):02}"
    new = tmp_path / "new.jsonl"
    new.write_text(json.dumps({"docid": "new", "text": texts[5]}) + "\n")
    monkeypatch.setattr(LoadedModels, "generator", lambda *_given: pytest.fail("loaded"))
    code, out, err = quoth("add", collection, new)  # no name is written for it either
    assert code == 0, err


def test_documents_without_identifiers_get_pseudo_queries_in_the_store(
    world: World, tmp_path: Path, quoth: Quoth
) -> None:
    documents = make_documents(20, seed=1)
    collection = make_collection(tmp_path / "bare.quoth", documents)
    code, out, err = quoth("train", "pixar", collection, *world.options("--json"))
    assert code == 0, err
    with closing(Store.open(collection)) as store:
        named = [store.identifiers(each.docid) for each in documents]
    assert sum(map(len, named)) > 0
    assert json.loads(out)["num_identifiers"] > len(documents)


def test_what_cannot_be_trained_is_said_plainly(world: World, tmp_path: Path, quoth: Quoth) -> None:
    collection = world.copy(tmp_path)
    code, _, err = quoth("train", "pixar", collection, "--set", "pixar.stepz=3", "--set", "size=x")
    assert code == 2 and "there is no setting pixar.stepz" in err and "a whole number" in err
    code, _, err = quoth("train", "pixar", collection, "--minutes", "0")
    assert code == 2 and "minutes is 0.0, expected above 0" in err
    nameless = make_collection(
        tmp_path / "nameless.quoth", [Document(f"d{at}", {"text": ("owl",)}) for at in range(3)]
    )
    bare = ("--no-generator", "--generative.sentences", "0")
    code, _, err = quoth("train", "pixar", nameless, *world.options(*bare))
    assert code == 2 and "has a name (title, name, identifiers)" in err
    code, _, err = quoth("train", "pixar", tmp_path / "nowhere.quoth")
    assert code == 3
    code, _, err = quoth("train", "pixar", collection, "--pairs", tmp_path / "none.jsonl")
    assert code == 4 and "is no file" in err


def test_learn_trains_it_last_where_asked(world: World, tmp_path: Path, quoth: Quoth) -> None:
    collection = world.copy(tmp_path)
    code, out, err = quoth(
        *("learn", collection, "--device", "cpu", "--json", "--dense.encoder", world.encoder),
        *("--learn.generator", world.generator, "--learn.method", "none"),
        *("--learn.warm-up-steps", "2", "--learn.warm-up-batch", "8", "--learn.held-out", "0.3"),
        *("--learn.generative", "true", "--learn.generative-minutes", "0.01"),
        *("--generative.generator", "none"),
    )
    assert code == 0, err
    report = json.loads(out)
    assert report["stages"][-1]["name"] == "generative" and report["generative"]["steps"] == 20
    code, out, err = quoth("search", collection, "karel mobor", "--with", "generative", "--json")
    assert code == 0 and len(best(out)) == 10


def test_phrases_are_built_inspected_and_cut_with(
    world: World, tmp_path: Path, quoth: Quoth
) -> None:
    folder = tmp_path / "phrases"
    code, out, err = quoth("phrases", "build", world.collection, "--out", folder, "--size", "500")
    assert code == 0, err
    assert "mean length" in out and "longest" in out and "most used" in out
    code, out, err = quoth("phrases", "inspect", folder, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["numbers"]["coverage"] == 1.0 and found["problems"] == []
    assert 256 < found["numbers"]["phrases"] <= 500
    title = make_documents()[0].fields["title"][0]
    code, out, err = quoth("phrases", "segment", folder, title.upper(), "--json")
    assert code == 0 and "".join(json.loads(out)["phrases"]).strip() == title
    code, out, err = quoth("phrases", "segment", folder, title)
    assert code == 0 and out.replace("|", "").strip() == title

    lines = tmp_path / "lines.txt"
    lines.write_text("barn owl\nbarn owl at night\n\nbarn\n")
    code, out, err = quoth(
        *("phrases", "build", lines, "--out", tmp_path / "two", "--cutter", "longest", "--json")
    )
    assert code == 0, err
    assert json.loads(out)["numbers"]["texts"] == 3
    assert " barn owl" in [each["phrase"] for each in json.loads(out)["longest"]]
    code, _, err = quoth("phrases", "inspect", folder, "--texts", lines)
    assert code == 0
    code, _, err = quoth("phrases", "build", lines, "--out", lines)
    assert code == 2 and "is a file" in err
    code, _, err = quoth("phrases", "build", lines, "--out", folder, "--cutter", "axe")
    assert code == 2 and "best_cover" in err
    code, _, err = quoth("phrases", "build", tmp_path / "none", "--out", folder)
    assert code == 3
    code, _, err = quoth("phrases", "segment", tmp_path, "x")
    assert code == 3 and "no finished phrase vocabulary" in err
