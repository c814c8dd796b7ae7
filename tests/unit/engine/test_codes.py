"""Codes beside stored vectors, through the engine: kept in step, filtered, verified, in shards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import WORDS, save_tiny_encoder

from quoth.engine.engine import Engine
from quoth.index.dense import config as dense_config
from quoth.records import Document
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import split_collection

QUERIES = ("owl barn", "raven watches a mouse", "night", "field mouse at dusk")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_config, "LEAST_CODED", 256)


def _settings(tiny: Path, *, exact_limit: int) -> list[dict[str, Any]]:
    return [{"dense": {"encoder": str(tiny), "exact_limit": exact_limit, "index": "ivfpq"}}]


def _some(count: int, *, first: int = 0) -> list[Document]:
    chance, found = random.Random(first), []
    for at in range(first, first + count):
        text = " ".join(chance.choices(WORDS, k=20)) + "."
        found.append(Document(f"d{at:03}", {"text": (text,)}, {"even": at % 2 == 0}))
    return found


def _codes(folder: Path) -> list[Path]:
    return sorted(folder.glob("**/ivfpq-*.faiss"))


def _assert_nearly_same(engine: Any, exact: Any, *, where: str = "") -> None:
    """Nine in ten hits are those of exact search, all with the same scores."""
    shares = []
    for query in QUERIES:
        found = {
            hit.docid: hit.score for hit in engine.search(query, where=where, searcher="dense")
        }
        every = exact.search(query, k=1_000, where=where, searcher="dense")
        scores = {hit.docid: hit.score for hit in every}
        assert len(found) == 10 and found.items() <= scores.items()
        shares.append(len(found.keys() & {hit.docid for hit in every[:10]}) / 10)
    assert sum(shares) / len(shares) >= 0.9


def test_codes_follow_the_documents_and_are_repaired(tmp_path: Path, tiny: Path) -> None:
    folder, told = tmp_path / "c.quoth", []
    settings = _settings(tiny, exact_limit=10)
    with Engine.open(folder, settings=settings, progress=lambda *each: told.append(each)) as engine:
        engine.add_documents(_some(300))
        engine.encode()
        assert len(_codes(folder)) == 1 and ("coding vectors", 300, 300) in told
        assert engine.status()["indexes"]["dense"]["index"] == "ivfpq"
        engine.add_documents([Document("new", {"text": ("raven watches a mouse",)})])
        assert engine.search("raven watches a mouse", searcher="dense")[0].docid == "new"
        gone = [hit.docid for hit in engine.search("owl barn", searcher="dense")]
        engine.remove(gone)
        kept = {hit.docid for hit in engine.search("owl barn", k=300, searcher="dense")}
        assert len(kept) == 291 and not kept & set(gone)
        with Engine.open(folder, settings=_settings(tiny, exact_limit=10_000)) as exact:
            for where in ("", "even = true"):
                _assert_nearly_same(engine, exact, where=where)
        assert engine.verify().is_clean
    (path,) = _codes(folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)
    with Engine.open(folder, settings=settings) as engine:
        (problem,) = engine.verify().indexes
        assert path.name in problem
        assert {hit.docid for hit in engine.search("owl barn", k=300, searcher="dense")} == kept
        assert engine.verify(repair=True).is_clean and engine.verify().is_clean
        assert {hit.docid for hit in engine.search("owl barn", k=300, searcher="dense")} == kept
    assert len(_codes(folder)) == 1


def test_every_shard_has_codes_of_its_own(tmp_path: Path, tiny: Path) -> None:
    settings, exact = _settings(tiny, exact_limit=10), _settings(tiny, exact_limit=10_000)
    with Engine.open(tmp_path / "whole", settings=exact) as whole:
        whole.add_documents(_some(640))
        whole.encode()
        split_collection(whole.folder, tmp_path / "s", count=2, settings=settings)
        with ShardedEngine.open(tmp_path / "s", settings=settings) as sharded:
            sharded.encode()
            assert len(_codes(tmp_path / "s")) == 2
            for where in ("", "even = true"):
                _assert_nearly_same(sharded, whole, where=where)
            assert sharded.verify().is_clean
