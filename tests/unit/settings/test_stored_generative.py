"""What a training of generative search chose, kept with its collection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quoth.collection.store import Store
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.state import index_settings
from quoth.settings.pixar import PixarBuildConfig
from quoth.settings.stored import store_generative, stored_build, stored_generative

BEFORE = {"sentences": 0}
NAMING = {name: getattr(GenerativeConfig(), name) for name in BEFORE}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path)) as store:
        yield store


def test_only_what_was_chosen_is_kept(store: Store) -> None:
    assert stored_generative(store) == {} and stored_build(store) == PixarBuildConfig()
    build = PixarBuildConfig(size=500, temperature=0.3, device="cuda:1")
    store_generative(store, GenerativeConfig(generator="none", model="other", depth=9), build)
    assert stored_generative(store) == {**NAMING, "generator": "none", "depth": 9}
    assert stored_build(store) == PixarBuildConfig(size=500, temperature=0.3)
    store_generative(store, GenerativeConfig(), PixarBuildConfig())
    assert stored_generative(store) == NAMING and stored_build(store) == PixarBuildConfig()


def test_a_folder_is_found_from_everywhere(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "writer").mkdir()
    monkeypatch.chdir(tmp_path)
    store_generative(store, GenerativeConfig(generator="writer"), PixarBuildConfig())
    place = str((tmp_path / "writer").resolve())
    assert stored_generative(store) == {**NAMING, "generator": place}


def test_what_another_version_kept_is_left_out(store: Store) -> None:
    store.set_setting("generative", {"generative": {"depth": 9, "colour": 1}, "pixar": {"x": 2}})
    assert stored_generative(store) == {**BEFORE, "depth": 9}
    assert stored_build(store) == PixarBuildConfig()


def test_what_was_trained_before_sentences_is_searched_as_it_was(store: Store) -> None:
    store.set_setting("generative", {"generative": {}, "pixar": {}})
    old = GenerativeConfig(**stored_generative(store))
    assert old.sentences == 0 and "sentences" not in index_settings(old)
    assert index_settings(GenerativeConfig())["sentences"] == GenerativeConfig().sentences > 0
