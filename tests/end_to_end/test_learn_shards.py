"""`quoth learn` on shards: on a sample of all documents, and for all shards at once."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from learning_worlds import copy_words, make_collection, make_documents, save_models

from quoth.collection.shards import open_shards
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.jobs.learn.plan import LearnRequest
from quoth.jobs.learn.sharded import learn_any
from quoth.models.query_generator.generator import QueryGenerator
from quoth.settings.stored import LEARNED
from quoth.shards import learned
from quoth.shards.engine import ShardedEngine
from quoth.shards.installing import begin_installing, is_installing
from quoth.shards.learned import SAMPLE, choose, draw_sample
from quoth.shards.split_and_merge import split_collection

COUNT = 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a collection in shards, an encoder and a query generator."""
    folder = tmp_path_factory.mktemp("world")
    save_models(folder)
    make_collection(folder / "whole.quoth", make_documents())
    split_collection(folder / "whole.quoth", folder / "birds.shards", count=COUNT)
    return folder


@pytest.fixture(scope="module")
def settings(world: Path) -> dict[str, dict[str, Any]]:
    return {
        "dense": {"encoder": str(world / "encoder")},
        "learn": {
            "generator": str(world / "generator"),
            "method": "none",
            "device": "cpu",
            "queries_per_passage": 3,
            "corpus_queries": 3,
            "warm_up_steps": 40,
            "warm_up_batch": 16,
            "learning_rate": 2e-3,
            "held_out": 0.3,
            "judged_queries": 40,
        },
        "fusion": {"method": "convex", "weight": 1.0},
    }


@pytest.fixture(scope="module", autouse=True)
def _telling_queries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryGenerator, "generate", copy_words)
        yield


def _stored(folder: Path) -> list[Any]:
    found = []
    for path in open_shards(folder).shards:
        with contextlib.closing(Store.open(path)) as store:
            found.append(store.setting(LEARNED))
    return found


def test_what_is_learned_is_used_by_every_shard(
    world: Path, settings: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(world / "birds.shards", tmp_path / "birds.shards"))
    notes: list[str] = []
    with ShardedEngine.open(folder, settings=[settings]) as engine:
        outcome = learn_any(engine, LearnRequest(), note=notes.append)
        assert outcome.report is not None
        assert notes[-1] == "all 2 shards use what was learned"
        again = learn_any(engine, LearnRequest(), note=notes.append)
        assert again.is_old, "the sample is kept, and so is what was found out on it"
    kept = _stored(folder)
    assert kept[0] == kept[1] and kept[0]["encoder"].startswith("models/learned-")
    with ShardedEngine.open(folder) as engine, Engine.open(folder / SAMPLE) as sample:
        assert engine.config.dense.encoder.endswith(kept[0]["encoder"])
        assert engine.verify().is_clean
        for document in make_documents()[:5]:
            (title,) = document.fields["title"]
            for searcher in ("dense", "hybrid"):
                hits = engine.search(title, k=5, searcher=searcher, rerank=False)
                assert document.docid in [hit.docid for hit in hits]
            near = [hit.docid for hit in engine.search(title, k=5, searcher="dense")]
            same = [hit.docid for hit in sample.search(title, k=5, searcher="dense")]
            assert near == same, "the sample holds all documents here"


def test_installing_that_was_decided_on_is_finished_by_whoever_comes_next(
    world: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(world / "birds.shards", tmp_path / "birds.shards"))
    shards = open_shards(folder)
    (shards.shard(0) / "models" / "x").mkdir(parents=True)
    wanted = {"encoder": "models/x", "sealed": []}
    begin_installing(shards, {LEARNED: wanted})
    with contextlib.closing(Store.create(shards.shard(0))) as store:
        store.set_setting(LEARNED, wanted)  # as if killed after the first shard
    assert _stored(folder) == [wanted, None]
    with ShardedEngine.open(folder):
        pass
    assert _stored(folder) == [wanted, wanted] and not is_installing(shards)


def test_a_failure_before_it_is_decided_leaves_every_shard_as_it_was(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(world / "birds.shards", tmp_path / "birds.shards"))
    shards = open_shards(folder)
    sample = draw_sample(shards, most=99, settings=[], progress=lambda *_given: None)
    (sample / "models" / "x").mkdir(parents=True)
    (sample / "models" / "x" / "weights").write_text("1")
    with contextlib.closing(Store.create(sample)) as store:
        store.set_setting(LEARNED, {"encoder": "models/x", "sealed": []})

    def fail(*_given: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(learned, "encode_together", fail)
    with pytest.raises(OSError, match="No space"):
        learned.install_sample(shards, sample, settings=[], progress=lambda *_given: None)
    assert _stored(folder) == [None, None] and not is_installing(shards)


def test_a_sample_is_drawn_over_all_shards_and_kept_as_long_as_it_is_right(
    world: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(world / "birds.shards", tmp_path / "birds.shards"))
    shards = open_shards(folder)
    every = [document.docid for document in make_documents()]
    sample = draw_sample(shards, most=12, settings=[], progress=lambda *_given: None)
    with Engine.open(sample) as engine:
        assert sorted(engine.docids()) == choose(every, most=12)
        assert {shards.shard_of(docid) for docid in engine.docids()} == set(range(COUNT))
    stamp = (sample / "collection.db").stat().st_ino
    draw_sample(shards, most=12, settings=[], progress=lambda *_given: None)
    assert (sample / "collection.db").stat().st_ino == stamp
    with ShardedEngine.open(folder) as engine:
        engine.remove([choose(every, most=12)[0]])
    draw_sample(shards, most=12, settings=[], progress=lambda *_given: None)
    with Engine.open(sample) as whole:
        assert choose(every, most=12)[0] not in whole.docids()
    second = choose(every, most=12)[1]
    with ShardedEngine.open(folder) as engine:
        engine.add_documents([replace(engine.document(second), fields={"text": ("changed",)})])
    draw_sample(shards, most=12, settings=[], progress=lambda *_given: None)
    with Engine.open(sample) as whole:
        assert whole.document(second).fields == {"text": ("changed",)}
