"""Codes for vectors beyond memory: built in steps that resume, kept up, checked, chosen by size."""

from __future__ import annotations

import errno
import functools
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

from quoth.errors import CollectionError, ConfigError, FormatMismatch, MissingExtra
from quoth.index.dense import building, ivfpq
from quoth.index.dense import config as dense_config
from quoth.index.dense import files as dense_files
from quoth.index.dense.approximate import ApproximateIndex
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.graph import Graph
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.ivfpq import Codes
from quoth.index.dense.rank import Found
from quoth.index.dense.state import VERSION, open_artifact

MODEL = {"name": "tiny", "sha256": "53aa"}
WIDTH = 16
CODES = DenseConfig(exact_limit=10, index="ivfpq", ivfpq_bytes=8)
EXACT = replace(CODES, exact_limit=1_000_000)


class Stopped(Exception):
    """What a progress bar raises to stop the work."""


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let collections be small, and their builds have many steps."""
    monkeypatch.setattr(dense_config, "LEAST_CODED", 300)
    monkeypatch.setattr(building, "BLOCK", 200)


def open_index(folder: Path, config: DenseConfig = CODES) -> DenseIndex:
    return DenseIndex.open(folder, model=MODEL, config=config)


def make_vectors(rows: Any, *, width: int = WIDTH) -> Any:
    """One vector per row, near one of 20 centres, that depends on the row alone."""
    vectors = np.float32([_vector(int(row), width) for row in rows]).reshape(-1, width)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@functools.cache
def _vector(row: int, width: int) -> Any:
    centre = np.random.default_rng(7).normal(size=(20, width))[row % 20]
    return centre + np.random.default_rng(row).normal(size=width)


def add_rows(index: DenseIndex, rows: range) -> None:
    units = np.zeros(len(rows), dtype=np.int32)
    index.add(np.array(rows, dtype=np.int64), units, make_vectors(rows))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"artifact.json"}


def codes_of(folder: Path) -> bytes:
    (path,) = folder.glob("ivfpq-*.faiss")
    return path.read_bytes()


def standing(index: DenseIndex) -> ApproximateIndex:
    found = index._now.approximate
    assert found is not None and found.index is not None
    return found


def stop_after(steps: int) -> Callable[[str, int, int], None]:
    """Make a progress bar that stops the work when it is told so often."""
    told = iter(range(steps))

    def progress(_what: str, _done: int, _total: int) -> None:
        if next(told, None) is None:
            raise Stopped

    return progress


def recall(found: list[list[Found]], expected: list[list[Found]]) -> float:
    pairs = zip(found, expected, strict=True)
    return float(np.mean([len({f.row for f in a} & {e.row for e in b}) / len(b) for a, b in pairs]))


# Building


def test_a_build_tells_how_far_it_is(tmp_path: Path) -> None:
    index, told = open_index(tmp_path), []
    add_rows(index, range(500))
    index.build_approximate_if_due(progress=lambda *each: told.append(each))
    assert told == [
        ("training centroids", 0, 0),
        *(("coding vectors", done, 500) for done in (0, 200, 400, 500)),
    ]
    assert not index.build_approximate_if_due()
    kinds = {name.split("-")[0] for name in files(tmp_path)}
    assert kinds == {"segment", "ivfpq", "places", "trained"} and len(files(tmp_path)) == 5


def test_a_code_is_as_long_as_asked_and_a_node_has_one(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(500))
    index.build_approximate()
    codes = standing(index)
    assert isinstance(codes, Codes)
    assert (codes.entry.num_nodes, codes.index.ntotal, codes.index.code_size) == (500, 500, 8)
    assert codes.entry.trained.lists == codes.index.nlist == ivfpq.num_lists(500)
    fixed = (tmp_path / codes.entry.trained.name).stat().st_size
    assert len(codes_of(tmp_path)) - fixed == pytest.approx(500 * (8 + 8), abs=1_000)


@pytest.mark.parametrize("steps", range(5))
def test_a_stopped_build_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    for name in ("whole", "stopped"):
        add_rows(open_index(tmp_path / name), range(700))
    open_index(tmp_path / "whole").build_approximate()
    with pytest.raises(Stopped):
        open_index(tmp_path / "stopped").build_approximate(progress=stop_after(steps))
    again, expected = open_index(tmp_path / "stopped"), make_vectors(range(5))
    assert again.find_damage() == ()
    assert again.top_k(expected, 5, allowed=None) == open_index(tmp_path / "stopped", EXACT).top_k(
        expected, 5, allowed=None
    )
    if steps:  # the first step is training
        monkeypatch.setattr(ivfpq, "train", lambda *_args, **_more: pytest.fail("trained again"))
    encoded: list[int] = []
    encode = ivfpq.encode
    monkeypatch.setattr(
        ivfpq, "encode", lambda index, some: encoded.append(len(some)) or encode(index, some)
    )
    assert again.build_approximate_if_due()
    assert codes_of(tmp_path / "stopped") == codes_of(tmp_path / "whole")
    assert sum(encoded) == 700 - 200 * max(0, steps - 1)


def test_a_stopped_build_goes_on_whatever_came_between(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(700))
    with pytest.raises(Stopped):
        index.build_approximate(progress=stop_after(3))
    index = open_index(tmp_path)
    index.remove(range(0, 700, 10))
    index.compact()
    add_rows(index, range(700, 730))
    index.remove([701])
    assert index.find_damage() == () and index.build_approximate_if_due()
    assert standing(index).entry.num_nodes == 700 and standing(index).index.ntotal == 630
    _require_same_hits(tmp_path, {*range(730)} - {*range(0, 700, 10), 701})


def _require_same_hits(folder: Path, rows: set[int]) -> None:
    """Nearly what exact search finds, never a removed row, and the same scores."""
    queries = make_vectors(range(1_000, 1_040))
    index, exact = open_index(folder), open_index(folder, EXACT)
    assert set(index.rows().tolist()) == rows
    for allowed in (None, {row for row in rows if row % 3}, {row for row in rows if row > 680}):
        found = index.top_k(queries, 10, allowed=allowed)
        expected = exact.top_k(queries, 10, allowed=allowed)
        assert recall(found, expected) >= 0.95
        every = exact.top_k(queries, 800, allowed=allowed)
        for hits, all_hits in zip(found, every, strict=True):
            assert len(hits) == min(10, len(all_hits)) and set(hits) <= set(all_hits)


def test_more_is_added_without_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(500))
    index.build_approximate()
    before = standing(index).entry
    add_rows(index, range(500, 540))
    assert not index.build_approximate_if_due()  # few enough to be searched exactly
    add_rows(index, range(540, 800))
    index.remove([3, 520])
    monkeypatch.setattr(ivfpq, "train", lambda *_args, **_more: pytest.fail("trained again"))
    with pytest.raises(Stopped):
        index.build_approximate(progress=stop_after(1))
    index = open_index(tmp_path)
    assert index.build_approximate_if_due()
    after = standing(index).entry
    assert isinstance(before, ivfpq.CodesEntry) and isinstance(after, ivfpq.CodesEntry)
    assert (after.num_nodes, after.trained) == (799, before.trained)
    _require_same_hits(tmp_path, {*range(800)} - {3, 520})


def test_centroids_are_trained_anew_when_outgrown_or_outdated(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(400))
    index.build_approximate()
    first = standing(index).entry.number
    add_rows(index, range(400, 400 * ivfpq.GROWTH + 1))
    assert index.build_approximate_if_due()
    grown = standing(index).entry
    assert isinstance(grown, ivfpq.CodesEntry)
    assert grown.trained.number > first and grown.trained.num_vectors == 1_601
    index.remove(range(400))
    assert index.build_approximate_if_due() and standing(index).entry.num_nodes == 1_201
    other = open_index(tmp_path, replace(CODES, ivfpq_bytes=4))
    assert other.build_approximate_if_due() and not other.build_approximate_if_due()
    assert standing(other).index.code_size == 4


def test_the_same_work_gives_the_same_bytes_with_any_number_of_threads(tmp_path: Path) -> None:
    made = []
    for threads in ("1", "4"):
        folder = tmp_path / threads
        run = [sys.executable, __file__, "build", str(folder)]
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        subprocess.run(run, check=True, timeout=300, env=environment)
        made.append({name: (folder / name).read_bytes() for name in files(folder)})
    assert made[0] == made[1]


def test_vectors_are_never_all_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivfpq, "MOST_SAMPLED", 2_000)
    monkeypatch.setattr(building, "BLOCK", 5_000)
    width, num_vectors = 512, 40_000
    vectors = np.random.default_rng(0).random((num_vectors, width), dtype=np.float32)  # 80 MB
    units = np.zeros(num_vectors, dtype=np.int32)
    open_index(tmp_path).add(np.arange(num_vectors), units, vectors)
    del vectors
    index = open_index(tmp_path)
    tracemalloc.start()
    index.build_approximate()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 << 20 and standing(index).entry.num_nodes == num_vectors


# Choosing


def test_the_size_chooses_unless_the_settings_do() -> None:
    config = DenseConfig(exact_limit=1_000, hnsw_limit=2_000)
    sizes = (1_000, 1_001, 2_000, 2_001)
    assert [config.choose_index(each) for each in sizes] == ["exact", "hnsw", "hnsw", "ivfpq"]
    for kind in ("hnsw", "ivfpq"):
        assert replace(config, index=kind).choose_index(1_001) == kind
    assert replace(config, index="ivfpq", exact_limit=0).choose_index(299) == "exact"
    assert config.wants("ivfpq", 1_001) and not config.wants("ivfpq", 999)
    assert not config.wants("hnsw", 2_001)
    with pytest.raises(ConfigError, match=r"index is 'annoy'.*ivfpq_bytes is 0"):
        DenseConfig(index="annoy", ivfpq_bytes=0)


def test_a_graph_gives_way_to_codes_and_codes_to_a_graph(tmp_path: Path) -> None:
    config = replace(CODES, index="auto", hnsw_limit=500)
    index = open_index(tmp_path, config)
    add_rows(index, range(500))
    index.build_approximate()
    assert isinstance(standing(index), Graph)
    add_rows(index, range(500, 520))
    with pytest.raises(Stopped):
        index.build_approximate_if_due(progress=stop_after(2))
    index = open_index(tmp_path, config)
    assert isinstance(standing(index), Graph)  # until the codes are finished
    assert index.build_approximate_if_due() and isinstance(standing(index), Codes)
    assert not any(name.startswith(("graph", "block")) for name in files(tmp_path))
    index.remove(range(60))
    assert not index.build_approximate_if_due()  # not to and fro around the limit
    graph = open_index(tmp_path, replace(config, index="hnsw"))
    assert graph.build_approximate_if_due() and isinstance(standing(graph), Graph)
    assert not any(name.startswith(("ivfpq", "trained")) for name in files(tmp_path))


def test_earlier_versions_refuse_codes_and_read_all_else(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(300))
    recorded = json.loads((tmp_path / "artifact.json").read_text())
    assert recorded["version"] == VERSION and not {"codes", "build"} & recorded["config"].keys()
    index.build_approximate()
    with pytest.raises(FormatMismatch, match="dense index of format 2"):
        open_artifact(tmp_path, kind="dense index", version=VERSION)


def test_without_faiss_search_is_exact_and_building_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, queries = open_index(tmp_path), make_vectors(range(5))
    add_rows(index, range(400))
    expected = index.top_k(queries, 5, allowed=None)
    index.build_approximate()
    monkeypatch.setitem(sys.modules, "faiss", None)
    again = open_index(tmp_path)
    assert again.top_k(queries, 5, allowed=None) == expected
    assert not again.build_approximate_if_due()
    add_rows(again, range(400, 500))
    with pytest.raises(MissingExtra, match=r'pip install "quoth\[neural\]"'):
        again.build_approximate_if_due()
    assert again.num_vectors == 500


# Damage


@pytest.mark.parametrize("is_finished", [True, False])
def test_damage_is_named_and_what_can_be_built_again_is(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, is_finished: bool
) -> None:
    index, queries = open_index(tmp_path), make_vectors(range(10))
    add_rows(index, range(600))
    if is_finished:
        index.build_approximate()
        add_rows(index, range(600, 604))
        index.remove([1, 601])
    else:
        with pytest.raises(Stopped):
            index.build_approximate(progress=stop_after(3))
    expected = open_index(tmp_path, EXACT).top_k(queries, 5, allowed=None)
    built = {name for name in files(tmp_path) if not name.startswith(("segment", "removed"))}
    assert len(built) == (3 if is_finished else 4)
    for name in sorted(built):
        for harm in (_truncate, _empty, Path.unlink, _flip):
            folder = tmp_path_factory.mktemp("copy") / "dense"
            shutil.copytree(tmp_path, folder)
            harm(folder / name)
            harmed = open_index(folder)
            assert [name in problem for problem in harmed.find_damage()] == [True]
            assert recall(harmed.top_k(queries, 5, allowed=None), expected) >= 0.95
            if is_finished and name.startswith("trained"):
                continue  # needed only when more is added
            assert harmed.build_approximate_if_due()
            assert harmed.find_damage() == ()
            assert recall(harmed.top_k(queries, 5, allowed=None), expected) >= 0.95


def test_centroids_that_are_lost_are_trained_again_when_needed(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    add_rows(index, range(600))
    index.build_approximate()
    (path,) = tmp_path.glob("trained-*")
    _flip(path)
    index = open_index(tmp_path)
    add_rows(index, range(600, 800))
    assert index.build_approximate_if_due() and index.find_damage() == ()
    _require_same_hits(tmp_path, {*range(800)})


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path) -> None:
    content, chance = bytearray(path.read_bytes()), random.Random(path.name)
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def test_a_disk_that_fails_at_any_step_leaves_a_whole_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, queries = os.fsync, make_vectors(range(5))
    for step in range(100):
        index, calls = open_index(tmp_path / str(step)), iter(range(100))
        add_rows(index, range(450))

        def refuse(handle: int, calls: Any = calls, step: int = step) -> None:
            if next(calls) == step:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(handle)

        monkeypatch.setattr(dense_files.os, "fsync", refuse)
        try:
            index.build_approximate()
        except CollectionError:
            pass
        else:
            break
        finally:
            monkeypatch.setattr(dense_files.os, "fsync", sync)
        again = open_index(tmp_path / str(step))
        assert again.find_damage() == ()
        assert [hits[0].row for hits in again.top_k(queries, 1, allowed=None)] == [*range(5)]
        assert again.build_approximate_if_due() or isinstance(standing(again), Codes)
        assert codes_of(tmp_path / str(step)) == codes_of(tmp_path / "0")
    assert step > 15


# A kill at every step


def _work() -> list[tuple[Callable[[DenseIndex], None], set[int]]]:
    """Writes of every kind, each with the rows that are held after it."""
    return [
        (lambda index: add_rows(index, range(320)), {*range(320)}),
        (lambda index: index.build_approximate(), {*range(320)}),
        (lambda index: index.remove([0, 1]), {*range(2, 320)}),
        (lambda index: add_rows(index, range(320, 400)), {*range(2, 400)}),
        (lambda index: index.build_approximate(), {*range(2, 400)}),
        (lambda index: index.compact(), {*range(2, 400)}),
        (lambda index: index.remove([24]), {*range(2, 400)} - {24}),
    ]


def test_a_kill_at_any_step_loses_nothing_acknowledged(tmp_path: Path) -> None:
    subprocess.run([sys.executable, __file__, "kill", str(tmp_path)], check=True, timeout=600)
    steps = sorted(tmp_path.iterdir())
    assert len(steps) > 60
    held = [set(), *(rows for _each, rows in _work())]
    queries = make_vectors(range(30, 35))
    for step in steps:
        done = len((step / "done").read_bytes())
        index = open_index(step / "dense")
        rows = set(index.rows().tolist())
        assert rows in held[done : done + 2], step
        assert index.find_damage() == ()
        if rows:
            assert [hits[0].row for hits in index.top_k(queries, 5, allowed=None)] == [
                *range(30, 35)
            ]
            (every,) = index.top_k(queries[:1], 500, allowed=None)
            assert {each.row for each in every} == rows
            index.build_approximate_if_due()
        add_rows(index, range(500, 502))
        recorded = json.loads((step / "dense" / "artifact.json").read_text())["files"]
        assert files(step / "dense") - {"artifact.json.tmp"} == set(recorded)
        assert index.find_damage() == ()


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
        (building, "write_faiss"),
    ):
        _die_at(owner, name, countdown)
    index = open_index(folder / "dense")
    for work, _rows in _work():
        work(index)
        os.write(done, b".")


def _die_at_every_step(root: Path) -> None:
    """Fork a writer for each step, until one outlives all of its steps."""
    import faiss

    assert faiss
    ivfpq._ROUNDS = 2  # where centroids end up is no matter here, and every writer learns them
    make_vectors(range(400))  # kept by every writer
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
    dense_config.LEAST_CODED, building.BLOCK = 300, 200
    if sys.argv[1] == "kill":
        _die_at_every_step(Path(sys.argv[2]))
    else:
        built = open_index(Path(sys.argv[2]))
        add_rows(built, range(5_000))
        built.build_approximate()
