"""What the experiment that settles GLOW is made of: fields, queries to train on, results kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from benchmarks.glow.report import replace_equal
from benchmarks.glow.settle import NUM_TRAINED, as_document, trained_queries, weighted
from benchmarks.glow.texts import draw, shorten

WRITTEN = ["a", "b", "c", "d", "e", "f", "g"]


def test_no_query_that_stands_in_a_document_is_trained_on() -> None:
    for natural in ("", "barn owls"):
        trained = trained_queries(natural, WRITTEN)
        assert len(trained) == NUM_TRAINED
        assert not set(trained) & set(as_document("t", "x", WRITTEN)["queries"])


def test_all_fields_have_room_beside_the_special_subwords() -> None:
    config = weighted(9.0)
    assert sum(config.field_caps.values()) + 1 + len(config.fields) <= config.max_subwords


def test_results_of_other_settings_stay_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "glow.json"
    old = [{"settings": {"steps": "600"}, "v": 1}, {"settings": {"steps": "900"}, "v": 1}]
    path.write_text(json.dumps({"experiments": old}))
    new = [{"settings": {"steps": "4500"}, "v": 2}, {"settings": {"steps": "600"}, "v": 2}]
    found = replace_equal(path, new)
    assert [(each["settings"]["steps"], each["v"]) for each in found] == [
        ("600", 2),
        ("900", 1),
        ("4500", 2),
    ]
    assert replace_equal(tmp_path / "none.json", new) == new


def test_drawing_keeps_the_order_and_takes_all_where_there_are_few() -> None:
    import numpy as np

    drawn = draw(list(range(100)), 10, np.random.default_rng(0))
    assert drawn == sorted(drawn) and len(set(drawn)) == 10
    assert draw([3, 1], 5, np.random.default_rng(0)) == [3, 1]
    assert shorten("one two three", 2) == "one two"
