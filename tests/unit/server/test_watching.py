"""A served collection that is kept in step: one writer, errors told and outlived, a clean end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from quoth import Engine
from quoth.engine.base import EngineBase
from quoth.errors import ConfigError, StorageFull
from quoth.server.routes import create_app

PATIENCE = 120.0  # seconds; only a failure waits so long
QUICK = {"sync": {"settle_seconds": 0.05, "rescan_seconds": 0.2}}


def _wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "owl.txt").write_text("An owl hunts.")
    return tmp_path / "notes"


def test_a_watching_server_finds_new_files_and_takes_writes(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([StorageFull("no room")])
    original = EngineBase.sync

    def sync(self: EngineBase, *arguments: object, **options: object) -> object:
        for failure in failures:
            raise failure
        return original(self, *arguments, **options)  # type: ignore[arg-type]

    with Engine.open("c.quoth", settings=[QUICK]) as engine:
        engine.sync(["notes"])
        monkeypatch.setattr(EngineBase, "sync", sync)
        app = create_app(engine, allow_writes=True, watch=True)
        with TestClient(app, base_url="http://127.0.0.1") as client:

            def has(docid: str) -> bool:
                return client.get("/documents", params={"docid": docid}).status_code == 200

            (notes / "raven.txt").write_text("A raven speaks.")
            _wait_until(lambda: has("notes/raven.txt"))
            posted = {"documents": [{"docid": "by hand", "fields": {"text": ["kept"]}}]}
            assert client.post("/documents", json=posted).status_code == 200
            (notes / "owl.txt").unlink()
            _wait_until(lambda: not has("notes/owl.txt"))
            assert has("by hand")
    assert next(failures, None) is None


def test_a_collection_without_folders_cannot_be_watched(tmp_path: Path) -> None:
    with (
        Engine.open(tmp_path / "c.quoth") as engine,
        pytest.raises(ConfigError, match="has no folders to sync"),
    ):
        create_app(engine, watch=True)
