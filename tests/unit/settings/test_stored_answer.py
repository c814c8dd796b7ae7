"""Which language model a collection answers with, kept in the collection."""

from __future__ import annotations

import shutil
from pathlib import Path

from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.writing import install_model
from quoth.records import Document
from quoth.settings.stored import stored_answer


def kept(folder: Path) -> dict[str, str]:
    store = Store.open(folder)
    found = stored_answer(store, folder)
    store.close()
    return found


def test_a_model_is_kept_by_its_place(tmp_path: Path) -> None:
    collection = tmp_path / "c.quoth"
    with Engine.open(collection) as engine:
        engine.add_documents([Document("a", {"text": ("owl",)})])
    assert kept(collection) == {}
    install_model(collection, tmp_path / "apart" / ".." / "apart", wait_seconds=0)
    assert kept(collection) == {"model": str(tmp_path / "apart")}
    install_model(collection, collection / "models" / "own", wait_seconds=0)
    moved = tmp_path / "moved.quoth"
    shutil.move(collection, moved)
    assert kept(moved) == {"model": str(moved / "models" / "own")}
    with Engine.open(moved) as engine:
        engine.add_documents([Document("b", {"text": ("hen",)})])  # still the settings it had
        assert len(engine.docids()) == 2
        assert engine.config.answer.model == str(moved / "models" / "own")
    with Engine.open(moved, settings=[{"answer": {"model": "mine"}}]) as engine:
        assert engine.config.answer.model == "mine"
