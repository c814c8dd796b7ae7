"""Search while an encoding is under way or was interrupted: by the vectors that are there."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import WORDS, save_tiny_encoder

from quoth.collection.store import FILE_NAME
from quoth.engine.engine import Engine
from quoth.errors import CollectionError
from quoth.index.dense.state import read_state
from quoth.records import Document, SearchRequest
from quoth.search.dense import filling
from quoth.search.searcher import Progress, ignore_progress

CHUNK = 4
NUM_DOCUMENTS = 10

Open = Callable[..., Engine]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "CHUNK", CHUNK)


@pytest.fixture
def open_engine(tmp_path: Path, tiny: Path) -> Iterator[Open]:
    opened = []

    def make(
        progress: Progress = ignore_progress, name: str = "c.quoth", **sections: dict[str, Any]
    ) -> Engine:
        settings = {"dense": {"encoder": str(tiny)}, "passages": {"max_words": 8}, **sections}
        opened.append(Engine.open(tmp_path / name, settings=[settings], progress=progress))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def _documents() -> list[Document]:
    """Make documents of one passage where their number is 0, 3, 6, …, of two, and of four."""
    chance = random.Random(0)
    return [
        Document(f"d{at}", {"text": (" ".join(chance.choices(WORDS, k=8 * (1, 2, 4)[at % 3])),)})
        for at in range(NUM_DOCUMENTS)
    ]


def _stop_after(num_chunks: int) -> Progress:
    """Interrupt an encoding once so many chunks are durable."""
    done: list[str] = []

    def progress(what: str, count: int, _total: int) -> None:
        if what.startswith("encoding") and count:
            done.append(what)
            if len(done) == num_chunks:
                raise KeyboardInterrupt

    return progress


def _interrupt(open_engine: Open, num_chunks: int, **options: Any) -> Engine:
    engine = open_engine(_stop_after(num_chunks), **options)
    if not (engine.folder / FILE_NAME).exists():
        engine.add_documents(_documents())
    with pytest.raises(KeyboardInterrupt):
        engine.encode()
    engine.close()
    return open_engine(**{key: each for key, each in options.items() if key == "name"})


def _held(engine: Engine) -> dict[str, int]:
    """Say how many vectors each document has."""
    index, _state = engine._searchers.dense_side()._opened.open_as_is()
    docids = engine._reader().docids(list(index.num_units()))
    counts = sorted(index.num_units().items())
    return {docids[row]: count for row, count in counts if row in docids}


def _files(engine: Engine) -> dict[str, bytes]:
    folder = engine.folder / "dense" / "tiny"
    return {each.name: each.read_bytes() for each in sorted(folder.glob("*.npy"))}


# --- order ----------------------------------------------------------------------------------------


def test_every_document_gets_its_opening_before_any_gets_more(open_engine: Open) -> None:
    chunks = -(-NUM_DOCUMENTS // CHUNK)
    engine = _interrupt(open_engine, 2)
    assert _held(engine) == {f"d{at}": 1 for at in range(2 * CHUNK)}
    engine = _interrupt(open_engine, chunks - 2)  # those that were left
    assert _held(engine) == {f"d{at}": 1 for at in range(NUM_DOCUMENTS)}
    engine = _interrupt(open_engine, 1)  # of d1, d2, d4, d5, d7, d8: the first four
    more = {"d1": 2, "d2": 4, "d4": 2, "d5": 4}
    assert _held(engine) == {f"d{at}": 1 for at in range(NUM_DOCUMENTS)} | more
    engine.encode()
    assert _held(engine) == {f"d{at}": (1, 2, 4)[at % 3] for at in range(NUM_DOCUMENTS)}
    assert engine.verify().is_clean


@pytest.mark.parametrize("num_chunks", [1, 2, 3, 4])
def test_an_interrupted_encoding_ends_in_the_same_bytes(
    open_engine: Open, num_chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "MOST_SEGMENTS", 2)  # so that it compacts on the way, too
    whole = open_engine(name="whole.quoth")
    whole.add_documents(_documents())
    whole.encode()
    engine = _interrupt(open_engine, num_chunks)
    assert _files(engine) != _files(whole)
    engine.encode()
    assert _files(engine) == _files(whole) != {}
    assert engine.status()["indexes"]["dense"] == whole.status()["indexes"]["dense"]


def test_documents_that_come_later_are_caught_up_whole(open_engine: Open) -> None:
    engine = _interrupt(open_engine, 2)
    engine.add_documents([Document("new", {"text": ("owl " * 20,)})])
    engine.remove(["d0", "d9"])
    assert "new" not in _held(engine)  # nobody asked for vectors yet
    engine.encode()
    kept = {f"d{at}": (1, 2, 4)[at % 3] for at in range(1, 9)}
    assert _held(engine) == kept | {"new": 3}
    engine.add_documents([Document("newer", {"text": ("barn " * 20,)})])
    assert _held(engine) == kept | {"new": 3, "newer": 3}
    assert engine.verify().is_clean


# --- search ---------------------------------------------------------------------------------------


def test_search_uses_the_vectors_that_are_there_and_says_how_many(open_engine: Open) -> None:
    engine = _interrupt(open_engine, 1)
    found = engine.find(SearchRequest("owl at night", k=99, explain=True))
    assert found.searcher == "hybrid"
    total = sum((1, 2, 4)[at % 3] for at in range(NUM_DOCUMENTS))
    assert found.incomplete == f"vectors cover {CHUNK} of {total} passages"
    encoded = {f"d{at}" for at in range(CHUNK)}
    by_vectors = {each.hit.docid for each in found.hits if "dense" in each.found_by}
    assert by_vectors == encoded
    assert {hit.docid for hit in engine.search("owl", k=99, searcher="dense")} == encoded
    assert engine.find(SearchRequest("owl", searcher="lexical")).incomplete == ""
    engine.encode()
    found = engine.find(SearchRequest("owl at night", k=99))
    assert found.incomplete == "" and len(found.hits) == NUM_DOCUMENTS


def test_a_document_without_vectors_does_not_sink(open_engine: Open) -> None:
    engine = _interrupt(open_engine, 1)
    hits = engine.find(
        SearchRequest("owl raven mouse", k=99, searcher="hybrid", rerank=False, explain=True)
    ).hits
    by_words = engine.search("owl raven mouse", k=99, searcher="lexical")
    waiting = [hit.docid for hit in by_words if int(hit.docid[1:]) >= CHUNK]
    assert waiting and [h.hit.docid for h in hits if int(h.hit.docid[1:]) >= CHUNK] == waiting
    for each in hits:
        assert each.explanation is not None
        words, near = each.explanation.parts
        is_waiting = each.hit.docid in waiting
        assert ("not encoded yet" in near.label) == is_waiting
        assert each.hit.score == pytest.approx(words.value + near.value)
        assert f"weight {1 - 0.5 * CHUNK / NUM_DOCUMENTS:.2f}" in words.label  # 0.5 once all are
        if is_waiting:
            assert near.value == pytest.approx(words.value * 0.2 / 0.8)


def test_documents_that_are_gone_are_not_found_by_unfinished_vectors(open_engine: Open) -> None:
    engine = _interrupt(open_engine, 2)
    engine.remove(["d1"])
    engine.add_documents([Document("d2", {"text": ("a hen sleeps",)})])
    found = {hit.docid for hit in engine.search("owl", k=99, searcher="dense")}
    assert found == {f"d{at}" for at in range(2 * CHUNK)} - {"d1", "d2"}
    assert engine.search("hen", k=1, searcher="hybrid", rerank=False)[0].docid == "d2"


def test_a_reader_follows_an_encoding_that_is_under_way(open_engine: Open) -> None:
    reader, seen = open_engine(), []

    def look(what: str, count: int, _total: int) -> None:
        if what.startswith("encoding") and count:
            found = reader.find(SearchRequest("owl", k=99))
            seen.append((found.searcher, found.incomplete.split(" of ")[0]))

    writer = open_engine(look)
    writer.add_documents(_documents())
    assert reader.find(SearchRequest("owl")).searcher == "lexical"
    writer.encode()
    assert seen == [
        ("hybrid", f"vectors cover {count}") for count in (4, 8, 10, 10 + 1 + 3 + 1 + 3, 22)
    ]
    assert reader.find(SearchRequest("owl")).incomplete == ""
    kept = writer._searchers.calibration
    assert kept is not None
    searchers = reader._searchers
    assert searchers.get("hybrid", syntax=True)._weights == kept.weights  # type: ignore[attr-defined]
    writer.make_searchers(writer._reader()).keep_calibration(
        type(kept).from_record(kept.to_record() | {"weights": {"lexical": 0.9, "dense": 0.1}})
    )
    assert searchers.get("hybrid", syntax=True)._weights == {"lexical": 0.9, "dense": 0.1}  # type: ignore[attr-defined]


def test_vectors_that_lack_documents_are_not_used_alone(open_engine: Open) -> None:
    engine = _interrupt(open_engine, 1)
    whole = open_engine(name="whole.quoth")
    whole.add_documents(_documents())
    found = whole.encode()
    alone = type(found).from_record(found.to_record() | {"weights": {"lexical": 0.0, "dense": 1.0}})
    engine.make_searchers(engine._reader()).keep_calibration(alone)
    docids = {hit.docid for hit in engine.search("owl raven mouse", k=99, searcher="hybrid")}
    assert docids > {f"d{at}" for at in range(CHUNK)}


# --- looking after --------------------------------------------------------------------------------


def test_unfinished_vectors_are_verified_and_deleted_where_damaged(open_engine: Open) -> None:
    engine = _interrupt(open_engine, 2)
    assert engine.verify().is_clean and engine.verify().behind == {}
    path = next((engine.folder / "dense" / "tiny").glob("*.codes.npy"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    damage = engine.verify()
    assert not damage.is_clean and path.name in damage.indexes[0]
    assert engine.verify(repair=True).is_clean
    assert read_state(engine.folder / "dense" / "tiny") is None
    assert engine.find(SearchRequest("owl")).searcher == "lexical"
    with pytest.raises(CollectionError, match="has no vectors yet"):
        engine.search("owl", searcher="dense")
    engine.encode()
    assert engine.find(SearchRequest("owl")).searcher == "hybrid"


def test_unfinished_vectors_of_another_history_are_not_used(
    open_engine: Open, tmp_path: Path
) -> None:
    engine = _interrupt(open_engine, 2)
    engine.close()
    other = open_engine(name="other.quoth")
    other.add_documents(list(reversed(_documents())))
    other.close()
    (tmp_path / "c.quoth" / "dense").rename(tmp_path / "other.quoth" / "dense")
    again = open_engine(name="other.quoth")
    assert again.find(SearchRequest("owl")).searcher == "lexical"
    again.encode()
    assert _held(again) == {f"d{at}": (1, 2, 4)[at % 3] for at in range(9, -1, -1)}
