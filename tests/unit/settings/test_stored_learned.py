"""What was learned and is kept with a collection: models, and whether hits are looked at twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quoth.collection.store import Store
from quoth.jobs.learn.reranker import look_twice
from quoth.search.rerank_config import SECOND_LOOK, RerankConfig
from quoth.settings.config import build_config
from quoth.settings.stored import (
    LEARNED,
    MODELS,
    sealed_models,
    stored_settings,
    use_learned,
    use_second_look,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path / "c.quoth")) as found:
        yield found


def rerank_of(store: Store) -> RerankConfig:
    return build_config(*stored_settings(store, store.path.parent)).rerank


def test_a_second_look_is_kept_beside_the_models_and_can_be_left_again(store: Store) -> None:
    folder = store.path.parent
    (folder / MODELS / "learned-1-reader").mkdir(parents=True)
    use_second_look(store, wanted=True)
    use_learned(store, reader="learned-1-reader")
    found = rerank_of(store)
    assert found.late_interaction == SECOND_LOOK["late_interaction"]
    assert found.late_likelihood == SECOND_LOOK["late_likelihood"]
    assert found.reader == str(folder / MODELS / "learned-1-reader")
    assert sealed_models(store, folder) == (folder / MODELS / "learned-1-reader",)
    use_second_look(store, wanted=False)
    assert rerank_of(store) == RerankConfig(reader=found.reader)


def test_what_a_user_sets_goes_before_it(store: Store) -> None:
    use_second_look(store, wanted=True)
    own = {"rerank": {"late_likelihood": 0.0}}
    found = build_config(*stored_settings(store, store.path.parent), own).rerank
    assert (found.late_interaction, found.late_likelihood) == (0.5, 0.0)


def test_settings_that_this_version_does_not_know_are_left_out(store: Store) -> None:
    store.set_setting(LEARNED, {"second look": {"late_interaction": 0.25, "gaze": 1.0}})
    assert rerank_of(store) == RerankConfig(late_interaction=0.25)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"learn": {"second_look": False}}, False),
        ({"rerank": {"by": "none"}}, False),
        ({"rerank": {"by": "both"}}, False),
        ({"rerank": {"reader": "reader"}}, False),
    ],
)
def test_learning_turns_it_on_where_a_cross_encoder_reranks(
    store: Store, settings: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)  # nothing is shipped
    reader = {"rerank": {"reader": str(store.path.parent)}}
    notes: list[str] = []
    use_second_look(store, wanted=True)
    assert look_twice(store, build_config(reader, settings), note=notes.append) is expected
    assert bool(store.setting(LEARNED)) is expected
    assert [each.startswith("search looks at its best hits") for each in notes] == [True] * expected
