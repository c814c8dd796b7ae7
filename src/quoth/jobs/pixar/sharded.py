"""Train generative search for a collection in shards: on a sample of all, for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from quoth.engine.engine import Engine
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.jobs.pixar.report import GenerativeReport
from quoth.shards.engine import ShardedEngine
from quoth.shards.generative import bring_back_identifiers, install_generative
from quoth.shards.learned import draw_sample
from quoth.shards.opening import OpenedEngine


def train_generative_any(
    engine: OpenedEngine, request: PixarRequest, *, note: Callable[[str], None]
) -> GenerativeReport:
    """Train generative search for a collection, in one piece or in shards."""
    if isinstance(engine, ShardedEngine):
        return train_on_shards(engine, request, note=note)
    return train_generative(engine, request, note=note)


def train_on_shards(
    engine: ShardedEngine, request: PixarRequest, *, note: Callable[[str], None]
) -> GenerativeReport:
    """Train on a sample, and let all shards use the model; interrupted, it resumes."""
    shards, settings, progress = engine.shards, engine.given_settings, engine.progress
    most = engine.config.learn.max_passages
    sample = draw_sample(shards, most=most, settings=settings, progress=progress)
    with Engine.open(sample, settings=settings, progress=progress) as whole:
        report = train_generative(whole, request, note=note)
    bring_back_identifiers(shards, sample, settings=settings, progress=progress)
    if install_generative(shards, sample, settings=settings, progress=progress):
        note(f"all {shards.count} shards use the model")
    return replace(report, collection=str(engine.folder))
