"""Stages of `quoth train pixar`: what is set reaches what is trained, here or on a cluster."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from quoth.jobs.pixar.stages import PixarStages
from quoth.settings.pixar import PixarBuildConfig
from quoth.training.loop import TrainingReport
from quoth.training.recipes.pixar_config import PixarRecipe


class _Cluster:
    """Takes a recipe and trains nothing."""

    recipe: PixarRecipe

    def train_pixar(self, _files: Any, recipe: PixarRecipe, **_named: Any) -> TrainingReport:
        self.recipe = recipe
        return TrainingReport(recipe.steps, ((recipe.steps, 1.0),), ())


def train_on_cluster(tmp_path: Path, config: PixarBuildConfig) -> PixarRecipe:
    cluster = _Cluster()
    planned = {"steps": 20, "batch_size": 8}
    stages = PixarStages(
        SimpleNamespace(progress=None),  # type: ignore[arg-type]
        SimpleNamespace(path=tmp_path, found=lambda _stage: planned),  # type: ignore[arg-type]
        config,
        device=torch.device("cpu"),
        pairs=None,
        remote=cluster,  # type: ignore[arg-type]
    )
    stages.training()
    return cluster.recipe


def test_a_cluster_trains_with_the_loss_that_search_goes_by(tmp_path: Path) -> None:
    recipe = train_on_cluster(tmp_path, PixarBuildConfig())
    assert recipe.bag_weight == PixarBuildConfig().bag_weight > 0.0


def test_the_papers_weights_are_set_by_the_user(tmp_path: Path) -> None:
    names = ("slot_weight", "pooled_weight", "normaliser_weight", "bag_weight")
    wanted = dict(zip(names, (0.75, 0.5, 0.1, 0.0), strict=True))
    recipe = train_on_cluster(tmp_path, PixarBuildConfig(**wanted))
    assert {name: getattr(recipe, name) for name in names} == wanted
    usual, plain = train_on_cluster(tmp_path, PixarBuildConfig()), PixarRecipe()
    assert usual.slot_weight == plain.slot_weight
    assert usual.pooled_weight == plain.pooled_weight
    assert usual.normaliser_weight == plain.normaliser_weight
