"""The dense side through the engine: encoding, fusing, keeping in step, telling what is wrong."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_encoder import WORDS, save_tiny_encoder

from quoth.artifact import save_artifact
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels, missing_neural
from quoth.engine.passages import nearness
from quoth.errors import CollectionError, ConfigError, IndexMismatch, MissingExtra
from quoth.index.dense.state import read_state
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoded import Encoded
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.plain import PlainEncoder
from quoth.records import Document, Query
from quoth.text.passages import cut_document

Open = Callable[..., Engine]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def open_engine(tmp_path: Path, tiny: Path) -> Iterator[Open]:
    opened = []

    def make(encoder: Path = tiny, **sections: dict[str, Any]) -> Engine:
        settings = {"dense": {"encoder": str(encoder)}, **sections}
        opened.append(Engine.open(tmp_path / "c.quoth", settings=[settings]))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def _some(count: int, *, seed: int = 0, words: int = 30) -> list[Document]:
    chance = random.Random(seed)
    return [
        Document(
            f"d{at:03}",
            {
                "title": (" ".join(chance.choices(WORDS, k=4)),),
                "text": (" ".join(chance.choices(WORDS, k=words)) + ".",),
            },
            {"even": at % 2 == 0},
        )
        for at in range(count)
    ]


# --- encoding and keeping in step -----------------------------------------------------------------


def test_searching_before_encoding_says_what_to_run(open_engine: Open, tmp_path: Path) -> None:
    engine = open_engine()
    engine.add_documents(_some(3))
    for name in ("dense", "hybrid"):
        with pytest.raises(CollectionError, match="has no vectors yet") as error:
            engine.search("owl", searcher=name)
        assert f'run "quoth encode {tmp_path / "c.quoth"}"' in str(error.value)
    assert "dense" not in engine.status()["indexes"]


def test_an_unknown_searcher_is_refused_by_name(open_engine: Open) -> None:
    engine = open_engine()
    engine.add_documents(_some(3))
    for use in (engine.search, lambda name, searcher: engine.run([], searcher=searcher)):
        with pytest.raises(ConfigError, match="no searcher 'fuzzy'; choose one of lexical, dense"):
            use("owl", searcher="fuzzy")


def test_writing_keeps_vectors_in_step(open_engine: Open) -> None:
    engine = open_engine()
    engine.add_documents(_some(12))
    engine.encode()
    assert engine.status()["indexes"]["dense"]["documents"] == 12
    engine.add_documents([Document("new", {"text": ("raven watches a mouse",)})])
    hit = engine.search("raven watches a mouse", searcher="dense")[0]
    assert (hit.docid, hit.score) == ("new", pytest.approx(1.0, abs=1e-2))
    engine.remove(["new", "d000"])
    assert {hit.docid for hit in engine.search("raven", k=99, searcher="dense")} == {
        f"d{at:03}" for at in range(1, 12)
    }
    assert engine.verify().is_clean
    status = engine.status()["indexes"]["dense"]
    assert (status["documents"], status["change"]) == (11, engine.status()["change"])
    assert status["encoder"] == "tiny" and status["subwords_cut"] == 0 < status["subwords"]


def test_status_tells_how_much_was_cut(open_engine: Open) -> None:
    engine = open_engine()
    engine.add_documents([Document("a", {"text": ("zyxwvutsrq " * 20,)}), *_some(1)])
    engine.encode()
    status = engine.status()["indexes"]["dense"]
    assert status["subwords_cut"] == 20 * 10 - 126 and status["documents_cut"] == 1


def test_filters_hold_before_ranking(open_engine: Open) -> None:
    engine = open_engine()
    engine.add_documents(_some(20))
    engine.encode()
    for name in ("dense", "hybrid"):
        hits = engine.search("owl barn", k=5, where="even = true", searcher=name)
        assert len(hits) == 5 and all(int(hit.docid[1:]) % 2 == 0 for hit in hits)


@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_scores_are_what_explanations_add_up_to(open_engine: Open, name: str) -> None:
    engine = open_engine(fusion={"method": "convex"})
    engine.add_documents(_some(30))
    engine.encode()
    for where in ("", "even = true"):
        hits = engine.search("owl at night", k=7, where=where, searcher=name)
        docids = [hit.docid for hit in hits]
        parts = engine.explain("owl at night", docids, k=7, where=where, searcher=name)
        run = engine.run([Query("q", "owl at night")], k=7, where=where, searcher=name)
        assert [hit.docid for hit in run.hits["q"]] == docids
        for hit, part in zip(hits, parts, strict=True):
            assert part.value == pytest.approx(hit.score, abs=1e-6)
            assert sum(each.value for each in part.parts) == pytest.approx(hit.score, abs=1e-6)


def test_searching_by_words_never_loads_the_encoder(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    engine.add_documents(_some(3))
    engine.encode()
    engine.close()
    monkeypatch.setattr(LoadedModels, "encoder", lambda *_: pytest.fail("loaded"))
    again = open_engine()
    assert again.search("owl", k=1, searcher="lexical")
    assert again.status()["indexes"]["dense"]["documents"] == 3
    assert again.verify().is_clean


def test_vectors_of_an_encoding_that_was_not_recorded_are_not_made_again(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = open_engine()
    engine.add_documents(_some(4))
    engine.encode()
    path = tmp_path / "c.quoth" / "dense" / "tiny"
    state = read_state(path)
    assert state is not None
    save_artifact(path, replace(state, change=0, log="").to_artifact())  # as a kill leaves it
    again = open_engine()
    assert again.search("owl", searcher="dense")
    assert again.status()["indexes"]["dense"]["unfinished"]
    calls: list[int] = []
    encode = PlainEncoder.encode_documents

    def counting(self: PlainEncoder, documents: Any, **options: Any) -> Encoded:
        calls.append(len(documents))
        return encode(self, documents, **options)

    monkeypatch.setattr("quoth.engine.encoding.calibrate_fusion", lambda *_a, **_k: _Even())
    monkeypatch.setattr(PlainEncoder, "encode_documents", counting)
    again.encode()
    assert calls == [] and again.search("owl", searcher="dense")


class _Even:
    def to_record(self) -> dict[str, Any]:
        return {}


# --- another encoder ------------------------------------------------------------------------------


def test_an_encoder_that_was_trained_again_is_refused_until_encoded_again(
    open_engine: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = save_tiny_encoder(tmp_path / "mine")
    engine = open_engine(own)
    engine.add_documents(_some(5))
    engine.encode()
    before = engine.search("owl", searcher="dense")
    shutil.rmtree(own)
    save_tiny_encoder(own, seed=9)
    changed = open_engine(own)
    with pytest.raises(IndexMismatch, match=r'another model .* run "quoth encode'):
        changed.search("owl", searcher="dense")
    with caplog.at_level(logging.WARNING):
        changed.add_documents([Document("new", {"text": ("owl",)})])  # words do not mind
    assert "vectors are not up to date" in caplog.text
    assert "new" in {hit.docid for hit in changed.search("owl", k=99, searcher="lexical")}
    changed.encode()
    after = changed.search("owl", k=99, searcher="dense")
    assert "new" in {hit.docid for hit in after} and len(after) == 6
    assert {hit.score for hit in after}.isdisjoint({hit.score for hit in before})


def test_two_encoders_keep_their_vectors_apart(open_engine: Open, tmp_path: Path) -> None:
    other = save_tiny_encoder(tmp_path / "other", seed=3)
    first = open_engine()
    first.add_documents(_some(5))
    first.encode()
    second = open_engine(other)
    with pytest.raises(CollectionError, match="no vectors yet"):
        second.search("owl", searcher="dense")
    second.encode()
    one, two = (each.search("owl", searcher="dense")[0].score for each in (first, second))
    assert one != two


def test_a_missing_library_names_what_to_install(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    engine.add_documents(_some(3))

    def fail(*_given: object) -> GlowEncoder:
        raise missing_neural(ImportError(name="torch"))

    monkeypatch.setattr(LoadedModels, "encoder", fail)
    with pytest.raises(MissingExtra, match=r'need torch; run pip install "quoth\[neural\]"'):
        engine.encode()


# --- what a hit shows -----------------------------------------------------------------------------


def test_a_hit_by_vectors_shows_the_passage_nearest_to_the_query(open_engine: Open) -> None:
    engine = open_engine(passages={"max_words": 5}, fusion={"method": "convex", "weight": 1.0})
    engine.add_documents(
        [Document("a", {"text": ("hen sleep here at dusk. mouse in field of words.",)})]
    )
    engine.encode()
    store = engine._reader()
    with store.snapshot():
        document = engine.document("a")
        row = store.rows(["a"])["a"]
        body = engine._searchers.dense().body_cosines(Query("", "qqq"), {row: document})[row]
        cut = cut_document(document, engine.config.passages)
        nearest = cut[max(range(len(cut)), key=body.cosines.__getitem__)]
    for name in ("dense", "hybrid"):
        (hit,) = engine.search("qqq", searcher=name)  # a word that stands nowhere
        assert hit.passage == nearest
    (hit,) = engine.search("mouse", searcher="hybrid")
    assert hit.passage is not None and hit.passage.text.startswith("mouse")
    for text in ("hen sleep here at dusk.", "mouse in field of words."):
        (hit,) = engine.search(text, searcher="dense")
        assert hit.passage is not None and hit.passage.text == text


# --- calibration ----------------------------------------------------------------------------------


def test_a_random_encoder_gets_no_weight(open_engine: Open) -> None:
    engine = open_engine()
    engine.add_documents(_telling(150))
    calibration = engine.encode()
    assert calibration.fell_back and calibration.weights == {"lexical": 1.0, "dense": 0.0}
    assert calibration.scores["lexical"] > calibration.scores["dense"] + 0.2
    asked = [Query("q", _telling(150)[7].fields["title"][0])]
    hybrid, lexical = (
        [hit.docid for hit in engine.run(asked, k=10, searcher=name).hits["q"]]
        for name in ("hybrid", "lexical")
    )
    assert hybrid == lexical


def _telling(count: int) -> list[Document]:
    """Make documents whose sentences are about something: words that recur in one document."""
    chance = random.Random(4)
    made = []
    for at in range(count):
        own = ["".join(chance.choices("bcdfgmnprst", k=7)) for _ in range(6)]
        sentences = [
            " ".join([*chance.sample(own, 4), *chance.choices(WORDS, k=5)]).capitalize() + "."
            for _ in range(4)
        ]
        made.append(
            Document(f"d{at}", {"title": (" ".join(own[:3]),), "text": (" ".join(sentences),)})
        )
    return made


def test_a_calibration_is_kept_reused_and_depends_on_the_seed_alone(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    engine.add_documents(_telling(60))
    first = engine.encode(seed=1)
    assert engine.encode(seed=1) == first
    assert engine.encode(seed=2).scores != first.scores
    path = tmp_path / "c.quoth" / "hybrid" / "artifact.json"
    kept = json.loads(path.read_text())["config"]["calibration"]
    assert kept["config"]["seed"] == 2 and kept["num_queries"] == first.num_queries
    monkeypatch.setattr("quoth.engine.encoding.calibrate_fusion", lambda *_: pytest.fail("again"))
    again = open_engine()
    again.search("owl", searcher="hybrid")
    assert again._searchers.calibration is not None
    assert dict(again._searchers.calibration.weights) == kept["weights"]


def test_calibrated_weights_are_those_that_fuse(open_engine: Open) -> None:
    engine = open_engine()
    engine.add_documents(_telling(30))
    engine.encode()
    searchers = engine.make_searchers(engine._reader())
    found = searchers.calibration
    assert found is not None
    searchers.keep_calibration(replace(found, weights={"lexical": 0.3, "dense": 0.7}))
    engine.close()
    docid = engine.search("owl", searcher="hybrid")[0].docid
    (part,) = engine.explain("owl", [docid], searcher="hybrid")
    assert [
        each.label.partition("weight")[1] + each.label.partition("weight")[2][:5]
        for each in part.parts
    ] == ["weight 0.30", "weight 0.70"]
    even = open_engine(fusion={"method": "convex", "weight": 0.5})
    (part,) = even.explain("owl", [docid], searcher="hybrid")
    assert all("weight 0.50" in each.label for each in part.parts)


def test_too_few_documents_to_calibrate_mix_evenly(open_engine: Open) -> None:
    engine = open_engine()
    engine.add_documents(_some(2))
    calibration = engine.encode()
    assert calibration.weights == {"lexical": 0.5, "dense": 0.5}
    assert len(engine.search("owl", searcher="hybrid")) == 2


# --- weighted attention ---------------------------------------------------------------------------


def test_query_weights_follow_the_collection_as_it_grows(
    open_engine: Open, tmp_path: Path, tiny: Path
) -> None:
    config = GlowConfig(
        weighting="row", weights="idf", idf="non_negative", max_subwords=64, mean_one=True
    )
    GlowEncoder.load(str(tiny), config=config, fast=False).save(tmp_path / "weighted")
    engine = open_engine(tmp_path / "weighted")
    engine.add_documents(_some(8, words=5))
    engine.encode()

    def vector() -> Any:
        with engine._reader().snapshot():
            return engine._searchers.dense()._encode([Query("", "owl watches raven")])[0]

    engine.search("owl", searcher="dense")
    before = vector()
    engine.add_documents([Document(f"o{at}", {"text": ("owl",)}) for at in range(40)])
    engine.search("owl", searcher="dense")
    after = vector()
    assert np.linalg.norm(before - after) > 1e-3
    assert engine.verify().is_clean


def test_every_passage_with_a_vector_has_its_cosine_with_a_query(open_engine: Open) -> None:
    engine = open_engine()
    documents = [*_some(6, words=600), Document("bare", {"title": ("owl barn",)})]
    engine.add_documents(documents)
    engine.encode()
    query = Query("", "owl in the barn")
    near = engine._near(query, [each.docid for each in documents])
    cut = {each.docid: cut_document(each, engine.config.passages) for each in documents}
    found = nearness(
        {each.docid: (each, cut[each.docid], near[each.docid].cosines) for each in documents}
    )
    assert {each.field for each in found} == {"text"}, "a document that is one unit has no passage"
    hits = {hit.docid: hit for hit in engine.search(query.text, k=10, searcher="dense")}
    for document in documents[:-1]:
        own = {each: found[each] for each in cut[document.docid] if each.field == "text"}
        assert len(own) > 1
        hit = hits[document.docid]
        assert hit.score == pytest.approx(max(own.values()), abs=1e-5)
        assert hit.passage is not None
        assert own[replace(hit.passage, place="")] == max(own.values())
