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
    """What is lowered: info_nce, or bce (the paper's, with one drawn negative per query)."""

    start: Annotated[str, OneOf("pretrained", "random")] = "pretrained"
    """Where the layers start: pretrained, or random (the embeddings stay pretrained)."""

    towers: Towers = "shared"
    """One encoder for queries and documents (shared), or two with tied embeddings (separate)."""

    num_layers: AtLeastZero = 3
    """Layers kept of the base encoder, from the bottom; 0 keeps all."""

    pooling: Pooling = "mean"
    """How token states become a vector: mean, cls or pooler."""

    weighting: Weighting = "none"
    """How word weights act on attention: none, row, column, add_log, merge."""

    layout: Layout = "joined"
    """Fields joined, or fields with embeddings of their own; as the training set was written."""

    steps: AtLeastOne = 600
    """Steps of the optimiser."""

    batch_size: Annotated[int, Range(2)] = 512
    """Pairs per batch and process; the others of the batch are the negatives."""

    learning_rate: Positive = 8e-5
    """Highest learning rate."""

    scorer_learning_rate: Positive = 1e-2
    """Learning rate of the line from cosine to logit, which has far to go."""

    ramp_steps: AtLeastZero = 0
    """Steps over which word weights are brought in."""

    scale: Annotated[float, FREE] = 20.0
    """Factor of the cosines in info_nce."""

    scorer_scale: Annotated[float, FREE] = 10.0
    """Where the factor of the cosines starts in bce; the released code starts at 1."""

    centre_scorer: bool = True
    """Start that line at the mean cosine of a first batch (off: at 0, as in the released code).
    Before training all pairs look alike: a line at 0 pushes them all apart at once, and the
    encoder may collapse to one vector, where the loss stays ln 2."""

    temperature: Annotated[float, FREE] = 1000.0
    """Sharpness of the draw of negatives in bce; at 1000 it is nearly the hardest one."""

    query_similarity: Annotated[float, FREE] = 0.90
    """Queries more alike than this are no negatives of each other."""

    centre_queries: bool = True
    """Compare queries seen from their mean (off: as in the paper, which needs a trained start)."""

    dropout: ShareBelowOne = 0.1
    """Share of states dropped while training."""

    gather: bool = False
    """With several processes, take the documents of all of them as negatives (info_nce)."""

    seed: Seed = 0
    """Decides the order of pairs, the fresh layers, the dropout and the drawn negatives."""


SHARED = ("num_layers", "pooling", "towers", "weighting", "layout")
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
