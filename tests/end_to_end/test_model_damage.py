"""Every file of a learned collection has a checksum: damage is named, and never searched with."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import damaging
import pytest
import tiny_encoder
import tiny_generative

from quoth.artifact import FILE_NAME, SEALS, find_sealed_damage, seal_folder
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.verify import find_model_damage
from quoth.errors import QuothError, StorageFull
from quoth.search.dense.searcher import DenseSearcher
from quoth.search.generative.files import save_generative_model
from quoth.settings.stored import MODELS, use_learned

LEARNED, GENERATIVE = f"{MODELS}/learned-1", "generative/small"
WAYS: Mapping[str, Callable[[Path], object]] = {
    "flipped": lambda path: damaging.flip_bit(path, random.Random(3)),
    "cut": damaging.truncate,
    "emptied": lambda path: path.write_bytes(b""),
    "deleted": Path.unlink,
}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a collection with vectors of an encoder of its own."""
    folder = tmp_path_factory.mktemp("encoded") / "sample.quoth"
    damaging.Sample(folder)
    encoder = tiny_encoder.save_tiny_encoder(folder / LEARNED)
    store = Store.create(folder)
    use_learned(store, encoder=encoder.name)
    store.close()
    with Engine.open(folder) as engine:
        engine.encode()
    return folder


@pytest.fixture(scope="module")
def learned(encoded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of that collection which has a generative model, too."""
    folder = tmp_path_factory.mktemp("learned")
    copy = Path(shutil.copytree(encoded, folder / "sample.quoth"))
    save_generative_model(copy / GENERATIVE, tiny_generative.tiny_model(folder / "g"), about={})
    return copy


def _damage_one_by_one(folder: Path, root: str) -> list[tuple[Path, str]]:
    inside = (each for each in damaging.data_files(folder / root) if "trie" not in each.parts)
    return [(path, way) for path in inside for way in WAYS]


def _search(folder: Path) -> list[tuple[str, float]]:
    with Engine.open(folder) as engine:
        return [(hit.docid, hit.score) for hit in engine.search("barn owl", searcher="dense")]


@pytest.mark.parametrize("root", [LEARNED, GENERATIVE])
def test_every_damaged_file_of_a_model_is_named(learned: Path, root: str) -> None:
    store = Store.create(learned)
    assert find_model_damage(learned, store) == ()
    for path, way in _damage_one_by_one(learned, root):
        kept = path.read_bytes()
        WAYS[way](path)
        found = find_model_damage(learned, store)
        path.write_bytes(kept)
        if path.name == SEALS and way == "deleted" and root == GENERATIVE:
            continue  # then it looks like a model of an older version
        assert any(str(path) in line for line in found), (path, way, found)
    assert find_model_damage(learned, store) == ()
    store.close()


def test_verify_tells_of_a_model_and_of_what_to_do(encoded: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(encoded, tmp_path / "copy.quoth"))
    path = folder / LEARNED / "tokenizer.json"
    path.write_bytes(b"")
    with Engine.open(folder) as engine:
        found = engine.verify(repair=True)
    assert not found.is_clean and any(str(path) in line for line in found.lines())
    assert "backup" in found.verdict()


def test_search_with_a_damaged_encoder_fails_clearly_or_finds_the_same(learned: Path) -> None:
    expected = _search(learned)
    for path, way in _damage_one_by_one(learned, LEARNED)[::3]:
        kept = path.read_bytes()
        WAYS[way](path)
        try:
            found = _search(learned)
        except QuothError as error:
            assert str(path) in str(error), (path, way)
        else:
            assert found == expected, (path, way)
        path.write_bytes(kept)
    assert _search(learned) == expected


def test_what_is_known_of_fusion_is_dropped_by_repair(encoded: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(encoded, tmp_path / "copy.quoth"))
    path = folder / "hybrid" / FILE_NAME
    damaging.truncate(path)
    with Engine.open(folder) as engine:
        with pytest.raises(QuothError, match="verify"):
            engine.search("barn owl", searcher="hybrid")
        assert any(str(path) in line for line in engine.verify().indexes)
        assert engine.verify(repair=True).is_clean
        assert engine.search("barn owl", searcher="hybrid")


def test_a_repair_of_vectors_that_fails_is_remembered_until_it_is_done(
    encoded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(encoded, tmp_path / "copy.quoth"))
    expected = _search(folder)
    damaging.truncate(next((folder / "dense").rglob("*.npy")))

    def fail(*_arguments: object, **_options: object) -> None:
        raise StorageFull("the disk is full")

    with monkeypatch.context() as patch, Engine.open(folder) as engine:
        patch.setattr(DenseSearcher, "rebuild", fail)
        with pytest.raises(StorageFull):
            engine.verify(repair=True)
    with Engine.open(folder) as engine:
        found = engine.verify()
        assert not found.is_clean and "repair that was not finished" in found.lines()[0]
        assert engine.verify(repair=True).is_clean and engine.verify().lines() == ()
    assert _search(folder) == expected


def test_a_model_can_be_sealed_after_that_failed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").write_bytes(b"1234")

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="No space"):
            seal_folder(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["weights"]
    (tmp_path / f"{SEALS}.tmp").write_text("of a process that was killed")
    seal_folder(tmp_path)
    (tmp_path / f"{SEALS}.tmp").unlink(missing_ok=True)
    assert find_sealed_damage(tmp_path) == ()
