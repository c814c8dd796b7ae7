"""Dense index: what it holds, what survives a kill, what it notices, what it refuses."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quoth.artifact import save_artifact
from quoth.errors import (
    CollectionError,
    ConfigError,
    Damaged,
    IndexMismatch,
    IndexMoved,
    MissingExtra,
    StorageFull,
)
from quoth.index.dense import building
from quoth.index.dense import files as dense_files
from quoth.index.dense import index as dense
from quoth.index.dense import vectors as stored
from quoth.index.dense.config import STORAGES, DenseConfig
from quoth.index.dense.index import MOST_SEGMENTS, DenseIndex
from quoth.index.dense.rank import Found, best_unit_per_row, kth_row_score, merge_top_k
from quoth.index.dense.storage import dequantise, quantise, score_codes, widen

MODEL = {"name": "tiny", "sha256": "53aa"}
WIDTH = 8
GRAPH = DenseConfig(exact_limit=10, hnsw_neighbours=8, hnsw_build_depth=20)


def open_index(folder: Path, config: DenseConfig | None = None) -> DenseIndex:
    return DenseIndex.open(folder, model=MODEL, config=config or DenseConfig())


def make_vectors(rows: Any, *, width: int = WIDTH) -> Any:
    """One vector per row that depends on the row alone."""
    made = [np.random.default_rng(int(row)).normal(size=width) for row in rows]
    vectors = np.float32(made).reshape(-1, width)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def add_rows(index: DenseIndex, rows: range, *, width: int = WIDTH) -> None:
    units = np.zeros(len(rows), dtype=np.int32)
    index.add(np.array(rows, dtype=np.int64), units, make_vectors(rows, width=width))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"artifact.json"}


# Arithmetic


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_stored_is_near_what_was_given(storage: str) -> None:
    vectors = make_vectors(range(50))
    back = dequantise(*quantise(vectors, storage=storage))
    bound = {"fp32": 0.0, "fp16": 2**-11, "int8": 0.5 / 127 + 1e-7}[storage]
    assert (np.abs(back - vectors) <= bound * np.abs(vectors).max(axis=1, keepdims=True)).all()


def test_bytes_carry_a_scale_per_vector() -> None:
    codes, scales = quantise(np.float32([[0.127, -0.064], [12.7, 0], [0, 0]]), storage="int8")
    assert codes.tolist() == [[127, -64], [127, 0], [0, 0]]
    assert scales.tolist() == pytest.approx([0.127 / 127, 12.7 / 127, 0])
    assert score_codes(codes, scales, np.float32([1, 2])).tolist() == pytest.approx(
        [(127 - 2 * 64) * 0.001, 127 * 0.1, 0], abs=1e-6
    )


def test_every_finite_half_is_widened_exactly() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 16)
    assert widen(halves).tobytes() == halves.astype(np.float32).tobytes()


def test_a_row_counts_by_its_best_unit_and_ties_go_by_row() -> None:
    rows, units = np.array([5, 5, 2, 9, 5]), np.array([2, 0, 7, 1, 1])
    scores = np.array([3.0, 3.0, 3.0, 4.0, 1.0])
    best = best_unit_per_row(rows, units, scores)
    assert list(zip(rows[best].tolist(), units[best].tolist(), strict=True)) == [
        (9, 1),
        (2, 7),
        (5, 0),
    ]
    assert best_unit_per_row(rows[:0], units[:0], scores[:0]).tolist() == []


def test_of_each_row_that_is_held_the_unit_nearest_to_a_query_is_given(tmp_path: Path) -> None:
    index = open_index(tmp_path / "dense", DenseConfig(storage="fp32"))
    vectors = np.float32([[1, 0], [0, 1], [0.6, 0.8], [0, 1], [1, 0]])
    index.add(np.array([4, 4, 7, 9, 9]), np.array([0, 1, 0, 0, 1], dtype=np.int32), vectors)
    found = index.nearest_units(np.float32([0.1, 1.0]), [9, 4, 5])
    assert {row: vector.tolist() for row, (vector, _) in found.items()} == {4: [0, 1], 9: [0, 1]}
    cosines = {row: [round(each, 3) for each in own] for row, (_, own) in found.items()}
    assert cosines == {4: [0.1, 1.0], 9: [1.0, 0.1]}, "in order of units"
    assert index.nearest_units(np.float32([0.1, 1.0]), []) == {}
    index.remove([4])
    assert set(index.nearest_units(np.float32([0.1, 1.0]), [4, 7])) == {7}


@pytest.mark.parametrize("is_sorted", [True, False])
def test_places_of_few_rows_are_those_that_a_look_at_all_finds(
    tmp_path: Path, is_sorted: bool
) -> None:
    chance = np.random.default_rng(0)
    rows = np.repeat(np.arange(0, 900, 3), 4)  # not all rows are held
    rows = rows if is_sorted else rows[::-1].copy()
    units = np.tile(np.arange(4, dtype=np.int32), len(rows) // 4)
    index = open_index(tmp_path / "dense", DenseConfig(storage="fp32"))
    index.add(rows, units, chance.normal(size=(len(rows), 3)).astype(np.float32))
    index.remove([6, 300])
    for wanted in ([], [3], [4, 5], [0, 3, 6, 897, 3], list(range(0, 900, 7))):
        found, own, _stored = index.read(np.array(wanted, dtype=np.int64))
        held = np.isin(rows, wanted) & ~np.isin(rows, [6, 300])
        assert found.tolist() == rows[held].tolist()
        assert own.tolist() == units[held].tolist()


def test_merging_keeps_each_row_once_and_orders_ties_by_row() -> None:
    first = [Found(4, 0, 2.0), Found(1, 1, 1.0)]
    second = [Found(3, 0, 2.0), Found(1, 0, 1.0), Found(4, 1, 0.5)]
    assert merge_top_k([first, second], k=9) == [
        Found(3, 0, 2.0),
        Found(4, 0, 2.0),
        Found(1, 0, 1.0),
    ]
    assert merge_top_k([first, second], k=1) == [Found(3, 0, 2.0)]
    assert merge_top_k([], k=3) == []


@pytest.mark.parametrize("k", [1, 2, 7, 50, 51])
def test_kth_row_score_equals_sorting_everything(k: int) -> None:
    chance = np.random.default_rng(k)
    rows, scores = chance.integers(0, 50, 1_000), chance.integers(0, 99, 1_000).astype(float)
    rows[:50] = range(50)
    best = sorted((scores[rows == row].max() for row in range(50)), reverse=True)
    assert kth_row_score(rows, scores, k=k) == ([*best, -np.inf])[k - 1]


def test_all_settings_are_checked_at_once() -> None:
    with pytest.raises(ConfigError, match=r"storage is 'fp8'.*hnsw_neighbours is 1.*share is 2"):
        DenseConfig(storage="fp8", hnsw_neighbours=1, compact_share=2)
    with pytest.raises(ConfigError, match=r"exact_limit is -1.*search_depth is 0"):
        DenseConfig(exact_limit=-1, hnsw_search_depth=0)


# What it holds


def test_nothing_is_created_before_the_first_write(tmp_path: Path) -> None:
    index = open_index(tmp_path / "dense" / "tiny")
    assert index.top_k(make_vectors([1]), 5, allowed=None) == [[]]
    index.remove([1, 2])
    index.compact()
    assert not index.build_approximate_if_due() and not index.compact_if_due()
    index.add(np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, WIDTH), np.float32))
    assert (index.rows().tolist(), index.num_vectors, index.change) == ([], 0, 0)
    assert index.find_damage() == () and list(tmp_path.iterdir()) == []


def test_everything_is_there_when_opened_again(tmp_path: Path) -> None:
    index = open_index(tmp_path / "dense" / "tiny")
    add_rows(index, range(10))
    add_rows(index, range(20, 25))
    index.remove([3, 21, 99])
    index.record_change(7, log="abc")
    again = open_index(tmp_path / "dense" / "tiny")
    for each in (index, again):
        assert each.rows().tolist() == [0, 1, 2, *range(4, 10), 20, 22, 23, 24]
        assert (each.num_vectors, each.num_dead, each.change, each.log) == (13, 2, 7, "abc")
    queries = make_vectors(range(30))
    assert again.top_k(queries, 5, allowed=None) == index.top_k(queries, 5, allowed=None)
    assert [each[0].row for each in again.top_k(queries[[4, 22]], 1, allowed=None)] == [4, 22]


def test_a_removed_row_can_come_back(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(5))
    index.remove([2])
    add_rows(index, range(2, 3))
    assert index.rows().tolist() == [0, 1, 2, 3, 4]
    assert index.num_dead == 0


def test_units_of_a_row_may_come_later_but_each_once(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    vectors = make_vectors([1, 2, 3])

    def add(rows: list[int], units: list[int], chosen: Any) -> None:
        index.add(np.array(rows, dtype=np.int64), np.array(units, dtype=np.int32), chosen)

    add([1, 2], [0, 0], vectors[:2])
    add([1], [1], vectors[2:])
    assert index.num_units() == {1: 2, 2: 1} and index.num_vectors == 3
    for rows, units in ([2, 3], [0, 0]), ([1, 1], [1, 2]):
        with pytest.raises(ValueError, match="a unit of a row is added once"):
            add(rows, units, vectors[:2])
    assert open_index(tmp_path).num_units() == {1: 2, 2: 1}


def test_filtering_leaves_as_many_hits_as_there_are(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(100))
    query = make_vectors([0])
    assert len(index.top_k(query, 10, allowed=set(range(90, 100)))[0]) == 10
    assert [each.row for each in index.top_k(query, 10, allowed={7, 500})[0]] == [7]
    assert index.top_k(query, 10, allowed=set()) == [[]]
    assert index.top_k(query[:0], 10, allowed=None) == []


def test_compaction_comes_when_it_is_due(tmp_path: Path) -> None:
    index = open_index(tmp_path, DenseConfig(compact_share=0.5))
    add_rows(index, range(10))
    index.remove(range(5))
    assert not index.compact_if_due()
    index.remove([5])
    assert index.compact_if_due() and index.num_dead == 0
    assert files(tmp_path) == {"segment-000004.codes.npy", "segment-000004.labels.npy"}
    index.remove(range(10))
    assert index.compact_if_due() and files(tmp_path) == set()
    for row in range(20, 21 + MOST_SEGMENTS):
        assert not index.compact_if_due()
        add_rows(index, range(row, row + 1))
    assert index.compact_if_due() and len(files(tmp_path)) == 2
    assert open_index(tmp_path, DenseConfig(compact_share=0.5)).num_vectors == MOST_SEGMENTS + 1


def _spoil(vectors: Any, value: float) -> Any:
    vectors[1, 2] = value
    return vectors


@pytest.mark.parametrize(
    ("rows", "units", "vectors"),
    [
        ([1, 2], [0], make_vectors([1, 2])),
        ([1, 2], [0, 0], make_vectors([1])),
        ([1], [0], make_vectors([1])[0]),
        ([1], [0], make_vectors([1])[:, :0]),
        ([1], [0], make_vectors([1])[:, 1:]),
        ([1, -2], [0, 0], make_vectors([1, 2])),
        ([1, 2], [0, -1], make_vectors([1, 2])),
        ([1, 2, 1], [0, 0, 0], make_vectors([1, 2, 3])),
        ([1, 100], [0, 0], make_vectors([1, 2])),
        ([1, 2], [0, 0], _spoil(make_vectors([1, 2]), np.nan)),
        ([1, 2], [0, 0], _spoil(make_vectors([1, 2]), np.inf)),
        ([1, 2], [0, 0], _spoil(make_vectors([1, 2]), 1e6)),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused_whole(
    tmp_path: Path, rows: list[int], units: list[int], vectors: Any
) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(100, 101))
    with pytest.raises(ValueError):
        index.add(np.array(rows, dtype=np.int64), np.array(units, dtype=np.int32), vectors)
    assert index.rows().tolist() == [100] and len(files(tmp_path)) == 2


def test_a_query_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(3))
    for queries, k in (
        (make_vectors([1])[0], 1),
        (make_vectors([1])[:, 1:], 1),
        (make_vectors([1]) * np.float32(np.nan), 1),
        (make_vectors([1]), 0),
    ):
        with pytest.raises(ValueError):
            index.top_k(queries, k, allowed=None)


# Others at work


def test_a_reader_keeps_what_it_opened(tmp_path: Path) -> None:
    writer = open_index(tmp_path)
    add_rows(writer, range(10))
    reader, query = open_index(tmp_path), make_vectors([3])
    before = reader.top_k(query, 10, allowed=None)
    writer.remove([3])
    writer.compact()
    assert reader.top_k(query, 10, allowed=None) == before
    assert 3 not in open_index(tmp_path).rows()
    assert reader.find_damage() == ()


def test_opening_while_a_writer_replaces_files_sees_the_new_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(10))
    old = index._now.state
    index.remove([1])
    index.compact()
    states = iter([old])
    read = dense.read_state
    monkeypatch.setattr(dense, "read_state", lambda folder: next(states, None) or read(folder))
    assert open_index(tmp_path).num_vectors == 9
    endless = (replace(old, change=at) for at in range(100))
    monkeypatch.setattr(dense, "read_state", lambda _folder: next(endless))
    with pytest.raises(IndexMoved):
        open_index(tmp_path)


def test_writing_over_the_work_of_another_is_refused(tmp_path: Path) -> None:
    first, second = open_index(tmp_path), open_index(tmp_path)
    add_rows(first, range(3))
    with pytest.raises(IndexMoved, match="another writer"):
        add_rows(second, range(3, 5))
    with pytest.raises(IndexMoved):
        second.record_change(4)
    assert open_index(tmp_path).rows().tolist() == [0, 1, 2]


def test_another_model_is_refused_and_named(tmp_path: Path) -> None:
    add_rows(open_index(tmp_path), range(3))
    with pytest.raises(IndexMismatch, match=r'"tiny".*"large" is configured|"large".*encode again'):
        DenseIndex.open(tmp_path, model={"name": "large"}, config=DenseConfig())
    with pytest.raises(IndexMismatch, match=r'as fp16, but dense.storage is int8.*"fp16"'):
        open_index(tmp_path, DenseConfig(storage="int8"))
    mixed = {"sha256": "53aa", "name": "tiny"}
    assert DenseIndex.open(tmp_path, model=mixed, config=DenseConfig()).num_vectors == 3


# Damage


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """An index with every kind of file, to be damaged."""
    index = open_index(tmp_path, GRAPH)
    add_rows(index, range(60))
    index.build_approximate()
    add_rows(index, range(60, 64))
    index.remove([1, 61])
    assert len(files(tmp_path)) == 7
    return tmp_path


def test_damage_is_noticed_and_named(
    damaged: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    queries = make_vectors(range(10))
    expected = open_index(damaged, replace(GRAPH, exact_limit=99)).top_k(queries, 5, allowed=None)
    for name in sorted(files(damaged)):
        for harm in (_truncate, Path.unlink, _flip):
            folder = tmp_path_factory.mktemp("copy") / "dense"
            shutil.copytree(damaged, folder)
            harm(folder / name)
            if harm is not _flip and not name.startswith(("graph", "places")):
                with pytest.raises(Damaged, match=name):
                    open_index(folder, GRAPH)
                continue
            index = open_index(folder, GRAPH)
            assert [name in problem for problem in index.find_damage()] == [True]
            if name.startswith(("graph", "places")):
                assert index.top_k(queries, 5, allowed=None) == expected
                assert index.build_approximate_if_due()
                assert index.find_damage() == ()
                assert index.top_k(queries, 5, allowed=None) == expected


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    content, chance = bytearray(path.read_bytes()), random.Random(path.name)
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def test_damage_to_the_description_is_noticed(damaged: Path) -> None:
    index, path = open_index(damaged, GRAPH), damaged / "artifact.json"
    path.write_text(path.read_text().replace('"width": 8', '"width": 4'))
    with pytest.raises(Damaged, match=r"artifact\.json"):
        open_index(damaged, GRAPH)
    assert "artifact.json" in index.find_damage()[0]
    path.unlink()
    assert "artifact.json is missing" in index.find_damage()[0]


def test_a_description_of_something_else_is_damage(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(3))
    artifact = index._now.state.to_artifact()
    save_artifact(tmp_path, replace(artifact, config={"segments": []}))
    with pytest.raises(Damaged, match="does not describe a dense index"):
        open_index(tmp_path)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, StorageFull), (errno.EIO, CollectionError)]
)
def test_a_disk_that_takes_no_more_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(5))

    def refuse(_handle: int) -> None:
        raise OSError(number, os.strerror(number))

    for work in (_add_more, lambda each: each.remove([1]), lambda each: each.record_change(3)):
        with monkeypatch.context() as patch, pytest.raises(kind, match=str(tmp_path)):
            patch.setattr(dense_files.os, "fsync", refuse)
            work(index)
        assert len(files(tmp_path) - {"artifact.json.tmp"}) == 2
        assert index.rows().tolist() == [0, 1, 2, 3, 4]
    _add_more(index)
    assert open_index(tmp_path).rows().tolist() == list(range(8))


@pytest.mark.parametrize("step", range(5))
def test_a_disk_that_fails_at_any_step_leaves_a_whole_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    index, calls = open_index(tmp_path), iter(range(100))
    add_rows(index, range(5))
    sync = os.fsync

    def refuse(handle: int) -> None:
        if next(calls) == step:  # codes, labels, folder, artifact, folder after the rename
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(handle)

    with monkeypatch.context() as patch, pytest.raises(CollectionError):
        patch.setattr(dense_files.os, "fsync", refuse)
        _add_more(index)
    again = open_index(tmp_path)
    assert again.find_damage() == ()
    assert again.rows().tolist() == list(range(8 if step == 4 else 5))
    if step == 4:
        with pytest.raises(IndexMoved):
            index.remove([1])
    assert index.rows().tolist() == list(range(5))


def _add_more(index: DenseIndex) -> None:
    add_rows(index, range(5, 8))


# The graph


def test_the_same_work_gives_the_same_graph(tmp_path: Path) -> None:
    made = []
    for name in "ab":
        index = open_index(tmp_path / name, GRAPH)
        add_rows(index, range(300))
        assert index.build_approximate_if_due()
        made.append(next((tmp_path / name).glob("graph-*")).read_bytes())
    assert made[0] == made[1]


def test_the_graph_is_built_anew_when_outdated(tmp_path: Path) -> None:
    index = open_index(tmp_path, GRAPH)
    add_rows(index, range(100))
    assert index.build_approximate_if_due()
    add_rows(index, range(100, 105))
    assert not index.build_approximate_if_due()
    index.remove(range(30))
    assert index.build_approximate_if_due()
    assert index._now.approximate is not None and index._now.approximate.entry.num_nodes == 75
    other = open_index(tmp_path, replace(GRAPH, hnsw_neighbours=4))
    assert other.build_approximate_if_due() and not other.build_approximate_if_due()
    index = open_index(tmp_path, GRAPH)
    index.remove(range(95))
    index.compact()
    assert not index.build_approximate_if_due() and len(files(tmp_path)) == 2


def test_without_faiss_search_is_exact_and_building_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, queries = open_index(tmp_path, GRAPH), make_vectors(range(5))
    add_rows(index, range(200))
    expected = index.top_k(queries, 5, allowed=None)
    index.build_approximate()
    monkeypatch.setitem(sys.modules, "faiss", None)
    again = open_index(tmp_path, GRAPH)
    assert again.top_k(queries, 5, allowed=None) == expected
    add_rows(again, range(200, 250))
    with pytest.raises(MissingExtra, match=r'pip install "quoth\[neural\]"'):
        again.build_approximate_if_due()
    assert again.num_vectors == 250


# Memory


@pytest.mark.parametrize("storage", STORAGES)
def test_vectors_that_are_kept_converted_are_found_as_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    found, queries = [], make_vectors(range(300, 320))
    for most in (0, 1 << 20):
        monkeypatch.setattr(stored, "KEPT_BYTES", most)
        index = open_index(tmp_path / str(most), DenseConfig(storage=storage))
        for start in (0, 90):  # two segments
            add_rows(index, range(start, start + 90))
        few = [index.top_k(queries, 7, allowed={3, 5, 8, 120})]
        assert not index._now.vectors._wide  # nothing is converted for few of them
        found.append(few + [index.top_k(queries, 7, allowed=None) for _time in range(2)])
        assert len(index._now.vectors._wide) == (2 if most else 0)
    assert found[0] == found[1]


@pytest.mark.parametrize("storage", STORAGES)
def test_a_large_index_is_neither_read_nor_converted_at_once(tmp_path: Path, storage: str) -> None:
    config, width, num_vectors = DenseConfig(storage=storage), 512, 40_000
    chance = np.random.default_rng(0)
    vectors = chance.random((num_vectors, width), dtype=np.float32)  # 80 MB
    open_index(tmp_path, config).add(
        np.arange(num_vectors), np.zeros(num_vectors, dtype=np.int32), vectors
    )
    query = vectors[:1].copy()
    del vectors
    tracemalloc.start()
    before = _resident_bytes()
    index = open_index(tmp_path, config)
    assert _resident_bytes() - before < 4 << 20
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    index.top_k(query, 10, allowed=None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0  # not Linux: what tracemalloc sees must do


# A kill at every step


def _work() -> list[tuple[Callable[[DenseIndex], None], set[int]]]:
    """Writes of every kind, each with the rows that are held after it."""
    return [
        (lambda index: add_rows(index, range(20)), {*range(20)}),
        (lambda index: index.remove([0, 1]), {*range(2, 20)}),
        (lambda index: add_rows(index, range(20, 25)), {*range(2, 25)}),
        (lambda index: index.build_approximate(), {*range(2, 25)}),
        (lambda index: index.record_change(3), {*range(2, 25)}),
        (lambda index: index.compact(), {*range(2, 25)}),
        (lambda index: index.remove([24]), {*range(2, 24)}),
    ]


def test_a_kill_at_any_step_loses_nothing_acknowledged(tmp_path: Path) -> None:
    subprocess.run([sys.executable, __file__, str(tmp_path)], check=True, timeout=300)
    steps = sorted(tmp_path.iterdir())
    assert len(steps) > 40
    held = [set(), *(rows for _each, rows in _work())]
    queries = make_vectors(range(30))
    for step in steps:
        done = len((step / "done").read_bytes())
        index = open_index(step / "dense", GRAPH)
        assert set(index.rows().tolist()) in held[done : done + 2], step
        assert index.find_damage() == ()
        assert index.change in (0, 3) if done == 4 else index.change == (3 if done > 4 else 0)
        for hits in index.top_k(queries, 30, allowed=None):
            assert sorted(each.row for each in hits) == index.rows().tolist()
        add_rows(index, range(30, 32))
        recorded = json.loads((step / "dense" / "artifact.json").read_text())["files"]
        assert files(step / "dense") - {"artifact.json.tmp"} == set(recorded)
        assert {30, 31} <= set(open_index(step / "dense", GRAPH).rows().tolist())


def _die_at(owner: Any, name: str, countdown: list[int]) -> None:
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        countdown[0] -= 1
        if countdown[0] < 0:
            os._exit(137)
        return original(*args, **kwargs)

    setattr(owner, name, call)


def _work_and_die(folder: Path, step: int) -> None:
    """Do all the work, but die before the given durability step, as a power cut would."""
    countdown = [step]
    done = os.open(folder / "done", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for owner, name in (
        (dense_files.npy, "write_array_header_1_0"),
        (os, "fsync"),
        (os, "replace"),
        (os, "mkdir"),
        (Path, "unlink"),
        (building, "seal_file"),
    ):
        _die_at(owner, name, countdown)
    index = open_index(folder / "dense", GRAPH)
    for work, _rows in _work():
        work(index)
        os.write(done, b".")


def _die_at_every_step(root: Path) -> None:
    """Fork a writer for each step, until one outlives all of its steps."""
    import faiss

    assert faiss
    for step in range(1_000):
        folder = root / f"{step:03d}"
        folder.mkdir()
        child = os.fork()
        if child == 0:
            _work_and_die(folder, step)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != 137:
            sys.exit(code)


if __name__ == "__main__":
    _die_at_every_step(Path(sys.argv[1]))
