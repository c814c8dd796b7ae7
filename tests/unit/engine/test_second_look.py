"""Who looks at hits a second time: the generator, or the encoder of the vectors, or nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import save_tiny_encoder
from tiny_generator import make_generator

from quoth.engine.models import LoadedModels
from quoth.engine.reranking import look_by_config
from quoth.search.rerank import ReadPassage
from quoth.search.standings import Look
from quoth.settings.config import build_config
from quoth.text.words import Analyser, AnalyserConfig

PASSAGES = [ReadPassage("Owls", "The barn owl hunts at night."), ReadPassage("", "A raven.")]
ANALYSER = Analyser(AnalyserConfig())


def look(models: LoadedModels, folder: Path, **rerank: Any) -> list[Look] | None:
    config = build_config({"dense": {"encoder": str(folder / "encoder")}, "rerank": rerank})
    found = look_by_config(
        config,
        "barn owl",
        PASSAGES,
        load_scorer=models.scorer,
        load_encoder=lambda own: models.encoder(own.dense.encoder),
        weights={"owl": 2.0},
        analyser=ANALYSER,
    )
    return None if found is None else list(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tiny_encoder(tmp_path / "encoder")
    make_generator(tmp_path / "base").save(tmp_path / "generator", dtype="fp32")
    return tmp_path


def test_the_generator_says_both_and_the_encoder_one(folder: Path) -> None:
    models, generator = LoadedModels(), str(folder / "generator")
    assert look(models, folder, generator=generator) is None
    both = look(models, folder, generator=generator, late_likelihood=0.1, late_interaction=1.0)
    assert both is not None and all(each.likelihood < 0 < each.similarity for each in both)
    alone = look(models, folder, generator=generator, late_interaction=1.0)
    assert alone is not None and all(each.likelihood == 0 < each.similarity for each in alone)


def test_a_generator_of_another_kind_leaves_it_to_the_encoder(folder: Path) -> None:
    models, other = LoadedModels(), str(folder / "base")  # an encoder, no generator
    assert models.scorer(other) is None
    assert look(models, folder, generator=other, late_likelihood=0.1) is None
    found = look(models, folder, generator=other, late_likelihood=0.1, late_interaction=1.0)
    assert found == look(models, folder, late_interaction=1.0)
    assert models.scorer(str(folder / "generator")) is models.scorer(str(folder / "generator"))
