"""One small collection, opened here and served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import serve_collection

from quoth import Client
from quoth.engine.engine import Engine
from quoth.records import Document

BIRDS = [
    Document("owl", {"title": ("Barn owl",), "text": ("The owl hunts at dusk.",)}, {"year": 2019}),
    Document("hen", {"title": ("Hen",), "text": ("A hen sleeps at dusk.",)}, {"year": 2021}),
    Document("swift", {"text": ("Swifts sleep on the wing.",)}, {"tags": ("fast", "high")}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add_documents(BIRDS)
    return tmp_path / "birds.quoth"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with Engine.open(folder) as served, serve_collection(served) as address:
        yield address


@pytest.fixture(params=["opened", "served"])
def engine(request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    """The collection through an Engine, and through a Client."""
    if request.param == "opened":
        with Engine.open(folder) as opened:
            yield opened
    else:
        with Client(request.getfixturevalue("url")) as client:
            yield client
