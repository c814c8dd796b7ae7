"""The settings of the recipe of GLOW, apart from it, so that `quoth --help` needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from quoth.constraints import (
    FREE,
    AtLeastOne,
    AtLeastZero,
    CheckedConfig,
    OneOf,
    Positive,
    Range,
    Seed,
    ShareBelowOne,
)
from quoth.errors import ConfigError
from quoth.models.glow.config import GlowConfig, Layout, Pooling, Towers, Weighting


@dataclass(frozen=True, slots=True)
class GlowRecipe(CheckedConfig, title="glow"):
    """Settings that train a GLOW encoder."""

    loss: Annotated[str, OneOf("info_nce", "bce")] = "info_nce"
    """Training loss: info_nce, or bce (the paper's, with one sampled negative per query)."""

    start: Annotated[str, OneOf("pretrained", "random")] = "pretrained"
    """Initial weights of the layers: pretrained, or random (the embeddings stay pretrained)."""

    towers: Towers = "shared"
    """One encoder for queries and documents (shared), or two with tied embeddings (separate)."""

    num_layers: AtLeastZero = 3
    """Layers of the base encoder to keep, from the bottom; 0 keeps all."""

    spread_layers: bool = False
    """Keep layers at even distances from the first to the last instead, 0, 2 and 5 of six: the
    lowest three of MiniLM give all texts nearly the same vector at their start, CLS."""

    pooling: Pooling = "mean"
    """How subword states become a vector: mean, cls or pooler."""

    weighting: Weighting = "none"
    """How word weights act on attention: none, row, column, add_log or merge."""

    layout: Layout = "joined"
    """How fields are encoded, as in the training set: joined, or fields with embeddings of their
    own."""

    steps: AtLeastOne = 600
    """Optimiser steps."""

    batch_size: Annotated[int, Range(2)] = 512
    """Pairs per batch and process; the other pairs of a batch are the negatives."""

    learning_rate: Positive = 8e-5
    """Peak learning rate."""

    scorer_learning_rate: Positive = 1e-2
    """Learning rate of the linear map from cosine to logit, which has far to go."""

    ramp_steps: AtLeastZero = 0
    """Steps over which the word weights are phased in."""

    scale: Annotated[float, FREE] = 20.0
    """Scale of the cosines in info_nce."""

    scorer_scale: Annotated[float, FREE] = 10.0
    """Initial scale of the cosines in bce; the released code starts at 1."""

    centre_scorer: bool = True
    """Start that linear map at the mean cosine of the first batch; if false, at 0, as in the
    released code.

    Before training all pairs look alike: a map that starts at 0 pushes them all apart at once, and
    the encoder may collapse to one vector, where the loss stays ln 2."""

    temperature: Annotated[float, FREE] = 1000.0
    """Sharpness of negative sampling in bce; at 1000 it nearly always takes the hardest one."""

    query_similarity: Annotated[float, FREE] = 0.90
    """Queries with a higher similarity than this are not used as negatives of each other."""

    centre_queries: bool = True
    """Compare queries after subtracting their mean; if false, as in the paper, which needs a
    trained start."""

    dropout: ShareBelowOne = 0.1
    """Dropout rate in training."""

    gather: bool = False
    """With several processes, use the documents of all of them as negatives (info_nce)."""

    seed: Seed = 0
    """Seed of the order of pairs, the new layers, the dropout and the sampled negatives."""


SHARED = ("num_layers", "spread_layers", "pooling", "towers", "weighting", "layout")
"""Fields that the encoder's settings take from the recipe."""


def encoder_config(recipe: GlowRecipe, rest: GlowConfig) -> GlowConfig:
    """Return the settings of the encoder that a recipe trains: its own fields, and the rest.

    >>> encoder_config(GlowRecipe(weighting="row"), GlowConfig(preset="code")).weighting
    'row'
    """
    usual = GlowConfig()
    doubled = [
        f"encoder.{name} is {getattr(rest, name)!r}: set glow.{name} instead"
        for name in SHARED
        if getattr(rest, name) not in (getattr(usual, name), getattr(recipe, name))
    ]
    if doubled:
        raise ConfigError("; ".join(doubled))
    return replace(rest, **{name: getattr(recipe, name) for name in SHARED})
