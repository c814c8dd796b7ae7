"""Models for generative search on disk: the round trip, replacing one, parts that do not fit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_generative import PHRASES, make_model, make_vocabulary

from quoth.artifact import FILE_NAME
from quoth.errors import ConfigError, Damaged, IndexMismatch, NoCollection
from quoth.search.generative.files import (
    GenerativeModel,
    open_generative_model,
    save_generative_model,
)
from quoth.search.generative.state import OLD, find_model, identify_model, read_model, settle


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[GenerativeModel, GenerativeModel]:
    folder = tmp_path_factory.mktemp("tiny")
    return make_model(folder), make_model(folder, seed=1)


@pytest.fixture
def saved(tmp_path: Path, models: tuple[GenerativeModel, GenerativeModel]) -> tuple[Path, Path]:
    """Save both models for one collection, the second after the first."""
    folders = tmp_path / "generative" / "first", tmp_path / "generative" / "a second"
    for folder, model in zip(folders, models, strict=True):
        save_generative_model(folder, model, about={"steps": 7})
    return folders


def test_saved_and_opened_it_scores_the_same(
    saved: tuple[Path, Path], models: tuple[GenerativeModel, GenerativeModel]
) -> None:
    opened, model = open_generative_model(saved[0], fast=False), models[0]
    own, other = (each.pixar.encode_queries(["barn owl"]) for each in (model, opened))
    np.testing.assert_allclose(other.pooled, own.pooled, atol=1e-5)
    shortlisted = opened.shortlist.shortlist(other.pooled[0], other.slots[0])
    expected = model.shortlist.shortlist(own.pooled[0], own.slots[0])
    np.testing.assert_allclose(shortlisted.slot_scores, expected.slot_scores, atol=1e-4)
    assert opened.vocabulary.fingerprint == model.vocabulary.fingerprint
    about = read_model(saved[0])
    assert about is not None and about.config["about"] == {"steps": 7}
    assert about.config["phrases"] == len(model.vocabulary)
    assert sorted(each.name for each in saved[0].parent.iterdir()) == ["a second", "first"]


def test_the_model_saved_last_is_found(
    saved: tuple[Path, Path], models: tuple[GenerativeModel, GenerativeModel], tmp_path: Path
) -> None:
    assert find_model(tmp_path, "") == saved[1]
    assert find_model(tmp_path, "first") == saved[0]
    assert find_model(tmp_path, "third") is None and find_model(tmp_path / "x", "") is None
    save_generative_model(saved[0], models[0], about={})
    assert find_model(tmp_path, "") == saved[0]


def test_a_model_that_replaces_another_takes_its_index_away(
    saved: tuple[Path, Path], models: tuple[GenerativeModel, GenerativeModel]
) -> None:
    (saved[0] / "trie").mkdir()
    before = identify_model(saved[0])
    save_generative_model(saved[0], models[1], about={"steps": 8})
    assert identify_model(saved[0]) != before and not (saved[0] / "trie").exists()
    assert sorted(each.name for each in saved[0].parent.iterdir()) == ["a second", "first"]


def test_a_kill_between_two_renames_leaves_the_old_model(
    saved: tuple[Path, Path], tmp_path: Path
) -> None:
    old = saved[1].with_name(saved[1].name + OLD)
    saved[1].rename(old)
    assert settle(saved[1]) == find_model(tmp_path, "") == find_model(tmp_path, "a second") == old
    assert len(open_generative_model(saved[1]).vocabulary) == 256 + len(PHRASES)


@pytest.mark.parametrize("part", ["model", "phrases", "shortlist"])
def test_parts_of_another_model_are_refused(
    saved: tuple[Path, Path],
    part: str,
    tmp_path: Path,
    models: tuple[GenerativeModel, GenerativeModel],
) -> None:
    shutil.rmtree(saved[0] / part)
    shutil.copytree(saved[1] / part, saved[0] / part)
    if part == "phrases":
        make_vocabulary((" some", " others")).save(saved[0] / part)
    with pytest.raises(IndexMismatch, match="do not belong together") as error:
        open_generative_model(saved[0])
    assert f'run "quoth train pixar {tmp_path}"' in str(error.value)


def test_a_model_that_is_not_there_or_altered(saved: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(NoCollection, match="quoth train pixar"):
        open_generative_model(tmp_path / "generative" / "third")
    path = saved[1] / FILE_NAME
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"change": 3}))
    with pytest.raises(Damaged, match="was altered"):
        open_generative_model(saved[1])
    assert find_model(tmp_path, "a second") == saved[1]  # whoever uses it says so


def test_parts_must_fit(models: tuple[GenerativeModel, GenerativeModel]) -> None:
    with pytest.raises(ConfigError, match=r"head has .* the vocabulary 258; the shortlist has"):
        GenerativeModel(models[0].pixar, make_vocabulary((" a b", " c")), models[0].shortlist)


def test_what_is_on_disk_is_told_without_heavy_libraries(saved: tuple[Path, Path]) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from quoth.search.generative.state import find_model\n"
        "assert find_model(Path(sys.argv[1]), '').name == 'a second'\n"
        "sys.exit(bool({'numpy', 'numba', 'torch'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(saved[0].parent.parent)]
    assert subprocess.run(command, check=False).returncode == 0
