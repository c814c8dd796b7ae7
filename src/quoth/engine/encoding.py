"""Give every document its vectors, and find out how to fuse them with BM25."""

from __future__ import annotations

import functools
from dataclasses import replace

from quoth.collection.store import Store
from quoth.engine.calibrating import calibrate_fusion, measure_generative
from quoth.engine.searchers import Searchers
from quoth.search.hybrid.calibration import Calibration
from quoth.search.searcher import Progress
from quoth.settings.config import Config
from quoth.text.words import Analyser


def encode_all(
    searchers: Searchers, store: Store, config: Config, *, seed: int, progress: Progress
) -> Calibration:
    """Bring vectors up to date, those of another model made anew, and calibrate; keeps nothing."""
    dense = searchers.dense_side()
    if dense.is_foreign():
        dense.discard()
    searchers.lexical(syntax=False).catch_up(store, progress=progress)
    dense.catch_up(store, progress=progress)
    plain = searchers.passages
    found = calibrate_fusion(
        store,
        [searchers.lexical(syntax=False), dense],
        analyser=Analyser(config.analyser),
        fusion=config.fusion,
        reranking=searchers.reranking_trial(
            functools.partial(plain.read_hits, "hybrid", syntax=False)
        ),
        seed=seed,
        progress=progress,
    )
    if not searchers.has_generative:
        return found
    searchers.generative().catch_up(store, progress=progress)
    return range_generative(found, searchers, store, config, seed=seed, progress=progress)


def range_generative(
    found: Calibration,
    searchers: Searchers,
    store: Store,
    config: Config,
    *,
    seed: int,
    progress: Progress,
) -> Calibration:
    """Note how far the scores of generative search reach, so that fusion scales it as the others.

    Where those of the others are not known, all are scaled query by query.
    """
    if not found.ranges:
        return found
    widths = measure_generative(
        store,
        searchers.generative(),
        analyser=searchers.analyser,
        depth=config.fusion.depth,
        seed=seed,
        progress=progress,
    )
    return replace(found, ranges={**found.ranges, **widths})
