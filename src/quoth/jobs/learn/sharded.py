"""Learn to search a collection in shards: on a sample drawn over all of them, for all of them."""

from __future__ import annotations

from collections.abc import Callable

from quoth.engine.engine import Engine
from quoth.jobs.learn.job import LearnOutcome, learn
from quoth.jobs.learn.plan import LearnRequest
from quoth.shards.engine import ShardedEngine
from quoth.shards.generative import bring_back_identifiers, install_generative
from quoth.shards.learned import draw_sample, install_sample
from quoth.shards.opening import OpenedEngine


def learn_any(
    engine: OpenedEngine, request: LearnRequest, *, note: Callable[[str], None]
) -> LearnOutcome:
    """Learn to search a collection, in one piece or in shards."""
    if isinstance(engine, ShardedEngine):
        return learn_on_shards(engine, request, note=note)
    return learn(engine, request, note=note)


def learn_on_shards(
    engine: ShardedEngine, request: LearnRequest, *, note: Callable[[str], None]
) -> LearnOutcome:
    """Learn on a sample, and let all shards use what is better; interrupted, it resumes."""
    shards, settings, progress = engine.shards, engine.given_settings, engine.progress
    most = engine.config.learn.max_passages
    sample = draw_sample(shards, most=most, settings=settings, progress=progress)
    with Engine.open(sample, settings=settings, progress=progress) as whole:
        outcome = learn(whole, request, note=note)
    if outcome.report is not None:
        bring_back_identifiers(shards, sample, settings=settings, progress=progress)
        installed = [
            install(shards, sample, settings=settings, progress=progress)
            for install in (install_sample, install_generative)
        ]
        if any(installed):
            note(f"all {shards.count} shards use what was learned")
    return outcome
