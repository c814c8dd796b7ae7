"""Generative search through the engine: installed, kept in step, fused, and told what is wrong."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import WORDS, save_tiny_encoder
from tiny_generative import make_model

from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels, missing_neural
from quoth.errors import CollectionError, ConfigError, MissingExtra
from quoth.records import Document, Part, Query
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.files import GenerativeModel, save_generative_model
from quoth.settings.pixar import PixarBuildConfig
from quoth.settings.stored import store_generative

pytestmark = pytest.mark.usefixtures("one_thread")

Open = Callable[..., Engine]
TITLES = ("barn owl", "owl at night", "two birds", "raven", "swift on the wing", "one hen")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    return make_model(tmp_path_factory.mktemp("pixar"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "c.quoth"


@pytest.fixture
def open_engine(folder: Path, tiny: Path) -> Iterator[Open]:
    opened = []

    def make(**sections: dict[str, Any]) -> Engine:
        settings = {
            "dense": {"encoder": str(tiny)},
            "generative": {"generator": "none", "sentences": 0} | sections.pop("generative", {}),
            **sections,
        }
        opened.append(Engine.open(folder, settings=[settings]))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


@pytest.fixture
def install(folder: Path, model: GenerativeModel) -> Callable[[], None]:
    def save() -> None:
        save_generative_model(folder / "generative" / "tiny", model, about={})

    return save


def _document(docid: str, title: str, **metadata: str) -> Document:
    return Document(docid, {"title": (title,), "text": (f"{title} among many words",)}, metadata)


def _some() -> list[Document]:
    return [_document(f"d{at}", title, even=str(at % 2)) for at, title in enumerate(TITLES)]


def test_without_a_model_it_says_what_to_run(open_engine: Open, folder: Path) -> None:
    engine = open_engine()
    engine.add_documents(_some())
    with pytest.raises(CollectionError, match="has no model for generative search yet") as error:
        engine.search("owl", searcher="generative")
    assert f'run "quoth train pixar {folder}"' in str(error.value)
    assert "generative" not in engine.status()["indexes"]
    with pytest.raises(CollectionError, match="has no model other yet"):
        open_engine(generative={"model": "other"}).search("owl", searcher="generative")
    with pytest.raises(ConfigError, match="choose one of lexical, dense, hybrid, generative"):
        engine.search("owl", searcher="fuzzy")


def test_documents_are_found_filtered_and_explained(
    open_engine: Open, install: Callable[[], None]
) -> None:
    engine = open_engine()
    engine.add_documents(_some())
    install()
    hits = engine.search("barn owl", searcher="generative", k=3)
    share = engine.config.generative.mean_share  # its one identifier is the best and the mean
    assert hits[0].docid == "d0" and hits[0].score == pytest.approx(1.0 + share, abs=0.05)
    assert hits[0].passage is not None
    (part,) = engine.explain("barn owl", ["d0"], searcher="generative", k=3)
    assert part.value == pytest.approx(hits[0].score)
    assert part.parts[0].label == 'identifier "barn owl"'
    odd = engine.search("barn owl", searcher="generative", where="even = '1'")
    assert sorted(hit.docid for hit in odd) == ["d1", "d3", "d5"]
    assert engine.attention("owl", ["d0"], searcher="generative") == (None,)
    described = engine.status()
    assert described["indexes"]["generative"]["documents"] == 6
    assert described["bytes"]["generative"] > 0


def test_writing_keeps_it_in_step_without_training(
    open_engine: Open, install: Callable[[], None]
) -> None:
    engine = open_engine()
    engine.add_documents(_some())
    install()
    assert engine.search("mouse", searcher="generative")
    engine.add_documents([_document("new", "mouse"), _document("d0", "three letters")])
    engine.remove(["d1"])
    found = [hit.docid for hit in engine.search("mouse", searcher="generative", k=10)]
    assert found[0] == "new" and sorted(found) == ["d0", "d2", "d3", "d4", "d5", "new"]
    assert engine.verify().is_clean
    index = engine.folder / "generative" / "tiny" / "trie"
    (path,) = index.glob("*/norms.npy")
    path.write_bytes(path.read_bytes()[:-4])
    assert not engine.verify().is_clean
    assert engine.verify(repair=True).is_clean  # the model is still there
    assert engine.search("mouse", searcher="generative")[0].docid == "new"


def _leaves(part: Part) -> dict[str, float]:
    return {leaf.label.partition(":")[0]: leaf.value for leaf in part.parts}


def test_the_hybrid_is_of_three_only_where_a_model_is_given_a_share(
    open_engine: Open, install: Callable[[], None]
) -> None:
    engine = open_engine()
    engine.add_documents(_some())
    engine.encode()
    queries = [Query(str(at), title) for at, title in enumerate(TITLES)]
    two = engine.run(queries, searcher="hybrid")
    (part,) = engine.explain("barn owl", ["d0"], searcher="hybrid")
    assert list(_leaves(part)) == ["lexical", "dense"]
    install()
    three = open_engine(fusion={"generative": 0.2})
    (part,) = three.explain("barn owl", ["d0"], searcher="hybrid")
    assert list(_leaves(part)) == ["lexical", "dense", "generative"]
    assert _leaves(part)["generative"] == pytest.approx(0.2)  # the best hit, its share
    assert part.value == pytest.approx(three.search("barn owl", searcher="hybrid")[0].score)
    assert open_engine().run(queries, searcher="hybrid") == two  # no share unless it is given one
    assert three.run(queries, searcher="hybrid") != two


def test_encoding_finds_how_far_the_scores_of_all_three_reach(
    open_engine: Open, install: Callable[[], None]
) -> None:
    chance = random.Random(0)
    engine = open_engine(rerank={"by": "none"})
    rare = [f"{first}{second}ng" for first in "bcdfgh" for second in ("ala", "ema", "ino", "oru")]
    engine.add_documents(
        Document(
            f"d{at}",
            {
                "title": (" ".join(chance.sample(WORDS, 3)),),
                "text": (" ".join(f"The {' '.join(chance.sample(rare, 6))}." for _ in range(4)),),
            },
        )
        for at in range(60)
    )
    assert set(engine.encode().ranges) == {"lexical", "dense"}
    install()
    ranges = engine.encode().ranges
    assert set(ranges) == {"lexical", "dense", "generative"} and ranges["generative"] > 0
    query = Query("q", "barn owl at night")
    three = open_engine(fusion={"generative": 0.25})
    found = three.run([query], k=100, searcher="generative").hits["q"]
    hits = three.run([query], k=100, searcher="hybrid").hits["q"]
    (part,) = three.explain(query.text, [hits[0].docid], searcher="hybrid", k=100)
    own = {hit.docid: hit.score for hit in found}[hits[0].docid]
    # fewer documents than the depth of fusion: scores count from 0
    assert _leaves(part)["generative"] == pytest.approx(0.25 * own / ranges["generative"])


def test_lexical_and_dense_search_load_no_generative_model(
    open_engine: Open, install: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    engine.add_documents(_some())
    engine.encode()
    install()
    engine.search("owl", searcher="generative")
    monkeypatch.setattr(LoadedModels, "generative", lambda *_given: pytest.fail("loaded"))
    again = open_engine()
    assert again.search("owl") and again.search("owl", searcher="dense")
    assert again.status()["indexes"]["generative"]["change"] == 6
    assert again.verify().is_clean


def test_documents_are_kept_where_the_model_cannot_be_used(
    open_engine: Open,
    install: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = open_engine()
    engine.add_documents(_some())
    install()
    engine.search("owl", searcher="generative")

    def miss(*_given: object) -> GenerativeModel:
        raise missing_neural(ModuleNotFoundError(name="torch"))

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(LoadedModels, "generative", miss)
        without = open_engine()
        without.add_documents([_document("new", "mouse")])
        assert "their identifiers are not up to date" in caplog.text
        assert without.search("mouse")[0].docid == "new"
        with pytest.raises(MissingExtra):
            without.search("mouse", searcher="generative")
        assert list(without.verify().behind.values()) == [1]
    assert open_engine().search("mouse", searcher="generative")[0].docid == "new"


class _Writer:
    """Writes the first words of a passage, in place of a query generator."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []

    def generate(
        self, passages: Sequence[str], *, per_passage: int, seed: int, temperature: float
    ) -> list[list[str]]:
        self.asked.append((seed, temperature))
        return [[" ".join(each.split()[:2])] * per_passage for each in passages]


def test_the_generator_names_documents_that_have_no_identifiers(
    open_engine: Open,
    install: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(LoadedModels, "generator", lambda *_given: _Writer())
    engine = open_engine(generative={"generator": "some"})
    engine.add_documents([Document("a", {"text": ("two birds here.",)}), _some()[0]])
    install()
    (hit, _other) = engine.search("two birds", searcher="generative")
    assert hit.docid == "a"
    (part,) = engine.explain("two birds", ["a"], searcher="generative")
    assert part.parts[0].label == 'identifier "two birds"'
    engine.add_documents([Document("keyword", {"title": ("mouse",)})])
    monkeypatch.setattr(LoadedModels, "generator", _refuse)
    engine.add_documents([Document("keyword 2", {"title": ("hen",)})])
    assert not caplog.text  # a title is a name, nothing is to be written
    engine.add_documents([Document("b", {"text": ("raven at dusk",)})])
    assert "named by their fields alone" in caplog.text
    found = {hit.docid for hit in engine.search("raven", searcher="generative")}
    assert found == {"a", "d0", "keyword", "keyword 2"}


def test_new_documents_are_named_as_the_training_chose(
    folder: Path, install: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = _Writer()
    monkeypatch.setattr(LoadedModels, "generator", lambda *_given: writer)
    with Engine.open(folder) as engine:
        engine.add_documents(_some())
        install()
        with engine._writing() as (store, _config):
            sources = ("title", "identifiers")
            chosen = GenerativeConfig(generator="none", sources=sources, sentences=0)
            store_generative(store, chosen, PixarBuildConfig(temperature=0.5, seed=7))
    with Engine.open(folder) as engine:
        assert engine.config.generative == chosen
        engine.add_documents([Document("a", {"text": ("two birds here.",)})])
        found = engine.search("two birds", searcher="generative")
        assert "a" not in {hit.docid for hit in found} and not writer.asked
    given = {"generative": {"generator": "query-generator", "written": 1}}
    with Engine.open(folder, settings=[given]) as engine:
        engine.add_documents([Document("b", {"text": ("two birds there.",)})])
        found = engine.search("two birds", searcher="generative")
        assert "b" in {hit.docid for hit in found} and writer.asked == [(7, 0.5)]


def _refuse(*_given: object) -> object:
    raise ConfigError("there is no such generator")


def test_a_model_trained_anew_takes_the_place_of_the_old(
    open_engine: Open, install: Callable[[], None], folder: Path, tmp_path: Path
) -> None:
    engine = open_engine()
    engine.add_documents(_some())
    install()
    before = engine.search("barn owl", searcher="generative")
    save_generative_model(
        folder / "generative" / "tiny", make_model(tmp_path / "other", seed=1), about={}
    )
    engine.add_documents([_document("new", "mouse")])
    after = engine.search("barn owl", searcher="generative")
    assert {hit.docid: hit.score for hit in after} != {hit.docid: hit.score for hit in before}
    shutil.rmtree(folder / "generative")
    with pytest.raises(CollectionError, match="has no model"):
        open_engine().search("owl", searcher="generative")
