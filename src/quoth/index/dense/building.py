"""Build what finds candidates, a graph or codes, in steps that are each saved.

A graph is one step. Codes are many: centroids are trained on a sample, then vectors are encoded
block by block, and at last put together; a build that was stopped goes on after its last block.
Vectors are never all in memory, not even once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quoth.artifact import FileSeal, find_damage, seal_file
from quoth.index.dense import ivfpq
from quoth.index.dense.approximate import PLACE, write_faiss
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.files import map_array, sync_file, write_array
from quoth.index.dense.graph import Graph, build_graph
from quoth.index.dense.ivfpq import Codes
from quoth.index.dense.scan import block_size
from quoth.index.dense.snapshot import DenseSnapshot
from quoth.index.dense.state import BuildEntry, CodesEntry, GraphEntry, TrainedEntry
from quoth.index.dense.storage import Floats, dequantise
from quoth.index.dense.vectors import Places

BLOCK = 65_536
"""Vectors that are encoded between two saves."""

_CODE = np.dtype("u1")
_SEED = 0

Progress = Callable[[str, int, int], None]
"""Told what is going on, how much of it is done, and how much there is (0 if unknown)."""


class Step(NamedTuple):
    """A new state: the number of its files, their seals, and the fields that change."""

    number: int
    files: dict[str, FileSeal]
    fields: dict[str, Any]


def build_steps(now: DenseSnapshot, config: DenseConfig, *, progress: Progress) -> Iterator[Step]:
    """Bring the graph or the codes up to date: extend them, or build them anew if unfit for that.

    Each step is to be saved before the next is asked for.
    """
    kind = config.choose_approximate(now.state.num_vectors)
    if kind == "hnsw":
        yield _write_graph(now, config, progress)
    elif kind == "ivfpq":
        yield from _CodesBuild(now, config, progress).steps()


def _write_graph(now: DenseSnapshot, config: DenseConfig, progress: Progress) -> Step:
    """Write a graph of the vectors at some places, on top of another or of none."""
    base = now.growing(config)
    assert base is None or isinstance(base, Graph)
    later = now.later(base)
    places = later if base is None else np.concatenate([base.places, later])
    number = now.state.last_number + 1
    links = config.hnsw_neighbours, config.hnsw_build_depth
    entry = GraphEntry(number, number, len(places), *links)
    path = now.folder / entry.name
    build_graph(
        path,
        _shown(_read_blocks(now, later), "building the graph", len(later), progress),
        width=now.state.width,
        neighbours=entry.neighbours,
        build_depth=entry.build_depth,
        extend=now.folder / base.entry.name if base else None,
    )
    sync_file(path)
    seals = {entry.name: seal_file(path), entry.places_name: _write_places(now, entry, places)}
    return Step(number, seals, {"graph": entry, "codes": None, "build": None})


class _CodesBuild:
    """One call's share of building codes."""

    def __init__(self, now: DenseSnapshot, config: DenseConfig, progress: Progress) -> None:
        self._now = now
        self._folder = now.folder
        self._config = config
        self._progress = progress
        self._number = now.state.last_number
        self._seals = dict(now.state.files)

    def steps(self) -> Iterator[Step]:
        """Begin, or go on with what a stopped build has saved."""
        build = _usable_build(self._now, self._config)
        if build is None:
            build = self._begin()
            yield self._step({build.places_name, build.trained.name}, build=build)
        name, shape = build.places_name, (build.num_nodes,)
        places = map_array(self._folder / name, self._seals[name], dtype=PLACE, shape=shape)
        quantiser = ivfpq.read_whole(self._folder / build.trained.name)
        for first in range(build.next_node, build.num_nodes, build.block_size):
            self._show(build)
            some = places[first : first + build.block_size]
            build = replace(build, blocks=(*build.blocks, self._number + 1))
            self._write_block(build.block_names[-1], quantiser, some)
            yield self._step({build.block_names[-1]}, build=build)
        self._show(build)
        entry = self._finish(build, places)
        yield self._step({entry.name}, graph=None, codes=entry, build=None)

    def _begin(self) -> BuildEntry:
        """Train on a sample, or take the centroids of the codes that stand; list the nodes."""
        number, base = self._number + 1, self._base()
        later = self._now.later(base)
        if base is None:
            places, trained = later, self._train(number, later)
        else:
            places, trained = np.concatenate([base.places, later]), base.entry.trained
        first = len(base.places) if base else 0
        build = BuildEntry(number, len(places), first, BLOCK, trained)
        self._seals[build.places_name] = _write_places(self._now, build, places)
        return build

    def _base(self) -> Codes | None:
        """Return the codes that stand, if more can be added to them with the same centroids."""
        base = self._now.growing(self._config)
        if not isinstance(base, Codes):
            return None
        name = base.entry.trained.name
        return base if seal_file(self._folder / name) == self._seals[name] else None

    def _train(self, number: int, places: Places) -> TrainedEntry:
        self._progress("training centroids", 0, 0)
        state, asked = self._now.state, self._config.ivfpq_bytes
        lists, length = ivfpq.num_lists(len(places)), ivfpq.code_bytes(state.width, asked)
        drawn = _draw(places, ivfpq.sample_size(lists))
        sample = np.empty((len(drawn), state.width), dtype=np.float32)
        at = 0
        for block in _read_blocks(self._now, drawn):
            sample[at : at + len(block)] = block
            at += len(block)
        entry = TrainedEntry(number, lists, length, asked, len(places))
        path = self._folder / entry.name
        write_faiss(ivfpq.train(sample, lists=lists, num_bytes=length), path)
        self._seal(path)
        return entry

    def _write_block(self, name: str, quantiser: Any, places: Places) -> None:
        """Encode the vectors at some places; nodes that compaction dropped get zeros."""
        codes = np.zeros((len(places), quantiser.sa_code_size()), dtype=np.uint8)
        at = np.flatnonzero(places >= 0)
        done = 0
        for block in _read_blocks(self._now, places[at]):
            codes[at[done : done + len(block)]] = ivfpq.encode(quantiser, block)
            done += len(block)
        path = self._folder / name
        self._seals[name] = write_array(path, [codes], dtype=_CODE, shape=codes.shape)

    def _finish(self, build: BuildEntry, places: Places) -> CodesEntry:
        """Put all blocks into the lists of the index that stands, or of an empty one."""
        stands = self._now.state.codes if build.first_node else None
        index = ivfpq.read_whole(self._folder / (stands or build.trained).name)
        width = index.sa_code_size()
        for at, name in enumerate(build.block_names):
            first = build.first_node + at * build.block_size
            own = places[first : first + build.block_size]
            shape, held = (len(own), width), np.flatnonzero(own >= 0)
            codes = map_array(self._folder / name, self._seals[name], dtype=_CODE, shape=shape)
            ivfpq.add_encoded(index, codes[held], first + held)
        entry = CodesEntry(self._number + 1, build.places_number, build.num_nodes, build.trained)
        path = self._folder / entry.name
        write_faiss(index, path)
        self._seal(path)
        return entry

    def _seal(self, path: Path) -> None:
        sync_file(path)
        self._seals[path.name] = seal_file(path)

    def _step(self, names: set[str], **fields: Any) -> Step:
        self._number += 1
        return Step(self._number, {name: self._seals[name] for name in names}, fields)

    def _show(self, build: BuildEntry) -> None:
        done = min(build.next_node, build.num_nodes) - build.first_node
        self._progress("coding vectors", done, build.num_nodes - build.first_node)


def _usable_build(now: DenseSnapshot, config: DenseConfig) -> BuildEntry | None:
    """Return the build that was stopped, if it is whole and still what is wanted."""
    build, state = now.state.build, now.state
    if build is None or not ivfpq.is_fit(build.trained, config, state.num_vectors):
        return None
    if build.first_node:
        base = now.growing(config)
        stands = base.entry if isinstance(base, Codes) else None
        if stands is None or (stands.num_nodes, stands.trained) != (
            build.first_node,
            build.trained,
        ):
            return None
    files = {name: seal for name, seal in state.files.items() if name in build.names}
    damage = find_damage(now.folder, replace(state.to_artifact(), files=files), deep=True)
    return None if damage else build


def _draw(places: Places, size: int) -> Places:
    """Draw places by a fixed seed, in order."""
    if len(places) <= size:
        return places
    chance = np.random.default_rng(_SEED)
    return places[np.sort(chance.choice(len(places), size, replace=False, shuffle=False))]


def _read_blocks(now: DenseSnapshot, places: Places) -> Iterator[Floats]:
    """Read vectors as they are stored, a block at a time."""
    vectors = now.vectors
    for block in vectors.blocks(places, num_vectors=block_size(vectors.width)):
        yield dequantise(block.codes, block.labels["scale"])


def _shown(blocks: Iterator[Floats], what: str, total: int, progress: Progress) -> Iterator[Floats]:
    """Pass blocks on and tell how many vectors were."""
    done = 0
    for block in blocks:
        progress(what, done, total)
        yield block
        done += len(block)


def _write_places(now: DenseSnapshot, entry: GraphEntry | BuildEntry, places: Places) -> FileSeal:
    path = now.folder / entry.places_name
    return write_array(path, [places], dtype=PLACE, shape=places.shape)
