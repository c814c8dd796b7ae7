"""A sample of the random operations: every searcher finds what brute force does, or is told on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from benchmarks.reliability.random_operations import Life, World, live, make_world, write

from quoth.records import Document

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("models"))


def test_random_operations_find_what_brute_force_finds(tmp_path: Path) -> None:
    (tally,) = live(tmp_path, steps=40, seed=1)
    write(tally, tmp_path / "found.json", seed=1, seconds=2)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["problems"] == [] and found["steps"] == 40
    assert found["compared"]["dense, brute force"] > 2


def test_a_collection_that_differs_is_told_on(tmp_path: Path, world: World) -> None:
    with Life(tmp_path, world, random.Random(0)) as life:
        assert life._add() == []
        hidden = Document("hidden", {"text": ("the owl at night",)})
        life._engine.add_documents([hidden])
        for look in (life._compare_with_new, life._search_dense):
            found = [problem for _turn in range(6) for problem in look()]
            assert any("hidden" in each or "expected" in each for each in found), found
        life._documents["hidden"] = hidden
        assert life._compare_with_new() == []
        life._documents["hidden"] = Document("hidden", {"text": ("a hen",)})
        assert life._reopen() == ["documents are not as they were written"]
