"""Splitting and merging end with all under the final name, or with nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from quoth.collection.shards import open_shards
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.shards import split_and_merge
from quoth.shards.split_and_merge import merge_shards, split_collection


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.add_documents(Document(f"d{at}", {"text": ("an owl",)}) for at in range(5))
    return tmp_path / "c.quoth"


def _fail(*_given: object) -> None:
    raise OSError(errno.EIO, "failed on purpose")


def test_a_split_that_is_done_is_not_read_again(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_and_merge, "open_shards", _fail)
    made = split_collection(collection, tmp_path / "out", count=2)
    assert made == open_shards(tmp_path / "out") and made.folder == tmp_path / "out"


def test_what_cannot_be_made_durable_does_not_stay(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = split_collection(collection, tmp_path / "shards", count=2).folder
    before = set(tmp_path.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(split_and_merge, "sync_folder", _fail)
        with pytest.raises(OSError, match="failed on purpose"):
            split_collection(collection, tmp_path / "out", count=2)
        with pytest.raises(OSError, match="failed on purpose"):
            merge_shards(shards, tmp_path / "merged")
    assert set(tmp_path.iterdir()) == before
    assert split_collection(collection, tmp_path / "out", count=2).count == 2  # the same again
