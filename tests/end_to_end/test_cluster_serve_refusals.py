"""`quoth serve --ray` where it cannot: said before anything is started.

Apart from the tests with a cluster, since a process that has joined one stays in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from quoth.cli.main import main
from quoth.collection.shards import create_shards
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.shards.engine import ShardedEngine

OWL = Document("owl", {"text": ("An owl hunts.",)})


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    folder = tmp_path / "birds.shards"
    create_shards(folder, count=2)
    with ShardedEngine.open(folder) as engine:
        engine.add_documents([OWL])
    return folder


def _refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> str:
    monkeypatch.setattr(sys, "argv", ["quoth", "serve", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code
    return " ".join(capsys.readouterr().err.split())


def test_bad_input_is_refused_before_anything_is_started(
    tmp_path: Path,
    sharded: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: object) -> str:
        return _refused(capsys, monkeypatch, *arguments)

    assert "no Ray cluster answers" in refuse(sharded, "--ray", "127.0.0.1:1")
    assert "expected HOST:PORT" in refuse(sharded, "--ray", "nowhere")
    with Engine.open(tmp_path / "plain.quoth") as plain:
        plain.add_documents([OWL])
    assert "quoth shard" in refuse(tmp_path / "plain.quoth", "--ray", "local")
    assert "cannot be combined with --ray" in refuse(sharded, "--ray", "local", "--allow-writes")
    assert "--replicas needs --ray" in refuse(sharded, "--replicas", "2")
    assert "replicas is 0" in refuse(sharded, "--ray", "local", "--replicas", "0")
    lost = sharded / "shard-00001"
    lost.rename(sharded / "elsewhere")
    assert "shard 1 of 2 is missing" in refuse(sharded, "--ray", "local")
