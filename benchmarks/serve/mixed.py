"""A large collection with vectors that cost what real ones cost, where encoding would take hours.

Every passage gets a mixture of two of a few thousand real passages' vectors
(`benchmarks.cluster.mixtures`): fit to measure speed; what they find means nothing.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.cluster.mixtures import encode_texts, mix
from benchmarks.serve.collection import make_collection
from quoth.collection.store import Store
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.models.glow.plain import open_encoder
from quoth.search.dense.merged_vectors import finish_vectors
from quoth.search.searcher import ignore_progress

SAMPLE = 2_048


def mixed_collection(data: Path, sets: Sequence[str]) -> Path:
    """Build the collection of these sets, and give it such vectors, unless that is done."""
    plain = make_collection(data, sets, vectors=None)
    folder = plain.with_name(plain.name.replace("-lexical", "-mixed"))
    if folder.exists():
        return folder
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(plain, part)
    logging.info("encoding %d passages, and mixing the vectors of all others", SAMPLE)
    config = DenseConfig()
    target = part / "dense" / config.encoder
    with contextlib.closing(Store.open(part)) as store:
        rows, units = list_units(store)
        step = max(1, store.num_documents // SAMPLE)
        drawn = islice(store.live_documents(), 0, None, step)
        sample = encode_texts([each.document.fields for each in islice(drawn, SAMPLE)])
        model = open_encoder(config.encoder).identity()
        index = DenseIndex.open(target, model=model, config=config)
        done = 0
        for some, vectors in mix(sample, rows, seed=0):
            index.add(some, units[done : done + len(some)], vectors)
            done += len(some)
        finish_vectors(target, target, store, config=config, progress=ignore_progress)
    part.rename(folder)
    return folder


def list_units(store: Store) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """List each document's row as often as it has passages, and number these."""
    counts: Counter[int] = Counter()
    for row, _field, count in store.passage_counts():
        counts[row] += count
    rows = np.repeat(np.array(list(counts), dtype=np.int64), list(counts.values()))
    units = [np.arange(count, dtype=np.int32) for count in counts.values()]
    return rows, np.concatenate(units)
