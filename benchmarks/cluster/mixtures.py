"""Vectors for ten million passages, nearly all of them mixtures of a few real ones.

Encoding ten million passages takes days on two cores. So a sample of the real passages is encoded,
and every passage gets a mixture of two of its vectors, drawn at random: vectors that lie as real
ones do and cost what real ones cost, but say nothing about their passage. They are fit to measure
time, memory and disk; what they find is meaningless, and no quality is reported of it.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cluster.apart import own_megabytes
from benchmarks.cluster.build import passages
from benchmarks.cluster.rounds import docids_of_round
from benchmarks.serve.collection import sample_queries
from benchmarks.serve.load import quantiles_ms
from quoth.collection.shards import ShardSet, open_shards
from quoth.collection.store import Store
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.models.glow.plain import open_encoder
from quoth.search.dense.merged_vectors import finish_vectors
from quoth.search.searcher import ignore_progress

SAMPLE = 4_096
_BLOCK = 100_000
_ENCODED_AT_ONCE = 64


def encode_sample(
    folder: Path, data: Path, *, count: int, rounds: int, num_shards: int
) -> dict[str, Any]:
    """Encode real passages that lie evenly among those of the first round."""
    folder.mkdir(parents=True, exist_ok=True)
    size = min(SAMPLE, count)
    drawn = islice(passages(data, count), 0, None, count // size)
    texts = [{"text": document.fields["text"]} for document in islice(drawn, size)]
    np.save(folder / "sample.npy", encode_texts(texts))
    owners = list_owners(data, count=count, rounds=rounds, num_shards=num_shards)
    np.save(folder / "owners.npy", owners)
    return {"encoded": size}


def encode_texts(texts: Sequence[Mapping[str, tuple[str, ...]]]) -> NDArray[np.float32]:
    """Encode the fields of documents, each as one passage."""
    encoder = open_encoder(DenseConfig().encoder)
    found = [
        encoder.encode_documents(texts[start : start + _ENCODED_AT_ONCE]).vectors
        for start in range(0, len(texts), _ENCODED_AT_ONCE)
    ]
    return np.concatenate(found)


def list_owners(data: Path, *, count: int, rounds: int, num_shards: int) -> NDArray[np.uint16]:
    """Say which shard each row belongs to; rows are counted from 1 in the order of adding."""
    numbered = ShardSet(Path(), "", num_shards)
    every = (docid for number in range(rounds) for docid in docids_of_round(data, number, count))
    return np.fromiter((numbered.shard_of(docid) for docid in every), dtype=np.uint16)


def build_vectors(folder: Path, number: int) -> dict[str, Any]:
    """Write the vectors of one shard's rows into an index of their own, and build its codes."""
    made = folder / f"shard-{number:05d}"
    if made.exists():
        shutil.rmtree(made)  # of a step that was killed
    rows = np.flatnonzero(np.load(folder / "owners.npy") == number) + 1
    identity = open_encoder(DenseConfig().encoder).identity()
    index = DenseIndex.open(made, model=identity, config=DenseConfig())
    sample = np.load(folder / "sample.npy").astype(np.float32)
    for some, vectors in mix(sample, rows, seed=number):
        index.add(some, np.zeros(len(some), dtype=np.int32), vectors)
    index.compact()
    index.build_approximate_if_due()
    return {"vectors": len(rows), "finder": DenseConfig().choose_index(len(rows))}


def search_codes(folder: Path, data: Path, *, num_queries: int, num_shards: int) -> dict[str, Any]:
    """Search the indexes by themselves for real queries, one after another, all shards in turn."""
    encoder = open_encoder(DenseConfig().encoder)
    sets = sorted(path.name for path in (data / "ir").iterdir() if path.is_dir())
    texts = sample_queries(data / "ir", sets, count=num_queries)
    vectors = encoder.encode_queries(texts).vectors
    indexes = [
        DenseIndex.open(
            folder / f"shard-{number:05d}", model=encoder.identity(), config=DenseConfig()
        )
        for number in range(num_shards)
    ]
    for index in indexes:  # which opens and checks its codes
        index.top_k(vectors[:1], 10, allowed=None)
    times, worked = [], time.process_time()
    for vector in vectors:
        begun = time.perf_counter()
        for index in indexes:
            index.top_k(vector[None], 10, allowed=None)
        times.append(time.perf_counter() - begun)
    work = 1000 * (time.process_time() - worked) / len(vectors)
    codes = [path.stat().st_size for path in folder.glob("shard-*/ivfpq-*")]
    return {
        "vectors": sum(index.num_vectors for index in indexes),
        "queries": len(times),
        "cpu_ms": work,
        **quantiles_ms(times),
        "codes_mb": sum(codes) / 1e6,
        "own_mb": own_megabytes(),
    }


def install_vectors(folder: Path, collection: Path) -> dict[str, Any]:
    """Move the indexes into the shards, drop what was removed, record that they hold the rest."""
    name, held = DenseConfig().encoder, 0
    for number, shard in enumerate(open_shards(collection).shards):
        made, target = folder / f"shard-{number:05d}", shard / "dense" / name
        if made.exists():
            target.parent.mkdir(exist_ok=True)
            made.rename(target)
        with contextlib.closing(Store.open(shard)) as store:
            _drop_removed(target, store)
            finish_vectors(target, target, store, config=DenseConfig(), progress=ignore_progress)
            held += store.num_documents
    return {"vectors": held}


def _drop_removed(folder: Path, store: Store) -> None:
    identity = open_encoder(DenseConfig().encoder).identity()
    index = DenseIndex.open(folder, model=identity, config=DenseConfig())
    rows, live = set(index.rows().tolist()), store.live_rows()
    if lacking := live - rows:
        raise SystemExit(f"{folder} lacks {len(lacking):,} documents of the store")
    index.remove(sorted(rows - live))


def mix(
    sample: NDArray[np.float32], rows: NDArray[np.int64], *, seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield rows, each with a mixture of two vectors."""
    chance = np.random.default_rng(seed)
    for start in range(0, len(rows), _BLOCK):
        some = rows[start : start + _BLOCK]
        one, other = chance.integers(0, len(sample), (2, len(some)))
        share = chance.uniform(0.5, 1.0, (len(some), 1)).astype(np.float32)
        mixed = share * sample[one] + (1 - share) * sample[other]
        yield some, mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
