"""Damaged files are reported by name, derived ones mended, and nothing is ever silently different.

The same small collection is copied for each case; what it must give comes from the reference.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import damaging
import pytest
from damaging import Sample

from quoth.collection.store import FILE_NAME
from quoth.engine.engine import Engine
from quoth.errors import CollectionError, Damaged
from quoth.records import Document

SQLITE_FILES = (FILE_NAME, "statistics.db", "passages.db")
MANAGED = ".managed.json"
"""tantivy's list of files it may delete: it decides nothing about what is found."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    made = Sample(tmp_path_factory.mktemp("damage") / "sample.quoth")
    assert any(path.suffix == ".del" for path in damaging.data_files(made.folder))
    return made


def _derived(folder: Path) -> list[Path]:
    return [
        path
        for path in damaging.data_files(folder)
        if path.name != FILE_NAME and path.name != MANAGED
    ]


def _open(folder: Path) -> Engine:
    return Engine.open(folder, settings=damaging.SETTINGS)


def _assert_reported_and_mended(sample: Sample, folder: Path, path: Path) -> None:
    with _open(folder) as engine:
        damage = engine.verify()
        assert not damage.is_clean and not damage.store
        assert any(str(path) in problem for problem in damage.indexes), (path.name, damage.indexes)
        assert engine.verify(repair=True).repaired
        assert engine.verify().indexes == ()
        sample.assert_reads_back(engine)


# --- The index ------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [damaging.truncate, Path.unlink], ids=["truncated", "deleted"])
def test_every_derived_file_that_is_cut_or_gone_is_reported_and_mended(
    sample: Sample, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    for number, original in enumerate(_derived(sample.folder)):
        folder = sample.copy_to(tmp_path / f"{number}.quoth")
        path = folder / original.relative_to(sample.folder)
        harm(path)
        _assert_reported_and_mended(sample, folder, path)


def test_every_flipped_bit_in_a_sealed_file_is_reported_and_mended(
    sample: Sample, tmp_path: Path
) -> None:
    chance = random.Random(3)
    for number, original in enumerate(_derived(sample.folder)):
        if original.name in SQLITE_FILES:
            continue  # their pages have unused room; see below
        folder = sample.copy_to(tmp_path / f"{number}.quoth")
        path = folder / original.relative_to(sample.folder)
        damaging.flip_bit(path, chance)
        _assert_reported_and_mended(sample, folder, path)


def test_a_flipped_bit_in_the_statistics_is_reported_or_changes_nothing(
    sample: Sample, tmp_path: Path
) -> None:
    reported = 0
    for seed in range(10):
        folder = sample.copy_to(tmp_path / f"{seed}.quoth")
        path = folder / "lexical" / "statistics.db"
        damaging.flip_bit(path, random.Random(seed))
        with _open(folder) as engine:
            damage = engine.verify(repair=True)
            reported += bool(damage.indexes)
            assert not damage.store
            assert all(str(path) in problem for problem in damage.indexes), damage.indexes
            sample.assert_reads_back(engine)
    assert reported


def test_a_statistics_file_whose_structure_is_wrong_is_reported_even_if_it_can_be_read(
    sample: Sample, tmp_path: Path
) -> None:
    folder = sample.copy_to(tmp_path / "copy.quoth")
    path = folder / "lexical" / "statistics.db"
    content = bytearray(path.read_bytes())
    content[36:40] = (7).to_bytes(4, "big")  # SQLite's count of free pages
    path.write_bytes(content)
    _assert_reported_and_mended(sample, folder, path)


def test_a_search_on_a_truncated_index_names_the_file(sample: Sample, tmp_path: Path) -> None:
    for number, original in enumerate(_derived(sample.folder)):
        folder = sample.copy_to(tmp_path / f"{number}.quoth")
        path = folder / original.relative_to(sample.folder)
        damaging.truncate(path)
        with _open(folder) as engine, pytest.raises(Damaged) as caught:
            engine.search("owl")
        assert path.name in str(caught.value)


def test_a_list_of_segments_that_lost_one_is_not_taken_for_an_unfinished_write(
    sample: Sample, tmp_path: Path
) -> None:
    folder = sample.copy_to(tmp_path / "copy.quoth")
    (path,) = folder.rglob("meta.json")
    content = json.loads(path.read_text())
    assert len(content["segments"]) > 1
    path.write_text(json.dumps({**content, "segments": content["segments"][1:]}))
    with _open(folder) as engine:
        with pytest.raises(Damaged, match=r"meta\.json"):
            engine.search("owl")
        with pytest.raises(Damaged, match=r"meta\.json"):
            engine.add_documents([Document("later", {"text": ("owl",)})])
        assert engine.verify(repair=True).is_clean
        engine.remove(["later"])
        sample.assert_reads_back(engine)


def test_a_search_on_an_altered_index_answers_or_says_that_it_is_damaged(
    sample: Sample, tmp_path: Path
) -> None:
    for seed in range(15):
        folder = sample.copy_to(tmp_path / f"{seed}.quoth")
        chance = random.Random(seed)
        damaging.flip_bit(chance.choice(_derived(folder)), chance)
        with _open(folder) as engine:
            try:
                engine.search("owl barn night", k=5)
                engine.search('"barn owl" title:owl', k=5)
            except Damaged:
                continue


CUT_WHILE_OPEN = """
import glob, os, sys, time
from quoth.engine.engine import Engine
from quoth.errors import Damaged
def settle():  # tantivy reads an index that is opened once more, by a thread of its own
    calm = 0
    while calm < 5:
        time.sleep(0.01)
        states = [state(each) for each in glob.glob("/proc/self/task/*/stat")]
        calm = calm + 1 if states.count("R") <= 1 else 0
def state(path):
    try:
        return open(path).read().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return ""
def found():  # a rebuilt index has no dead documents, and so scores in single precision
    return [(hit.docid, round(hit.score, 5), hit.passage) for hit in engine.search("owl", k=99)]
for path, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    print(path.rpartition(".")[2], flush=True)
    engine = Engine.open(folder, settings=[{"lexical": {"compact_share": 1.0}}])
    before = found()
    settle()
    os.truncate(path, 0)
    for _time in range(2):
        try:
            engine.search("owl barn", k=99)
        except Damaged as error:
            print("damaged" if path in str(error) else error)
    with Engine.open(folder, settings=[{"lexical": {"compact_share": 1.0}}]) as other:
        other.verify(repair=True)
    print("mended" if found() == before else "differs")
"""


def test_a_file_that_is_cut_under_an_open_engine_is_damage_and_its_repair_is_seen(
    sample: Sample, tmp_path: Path
) -> None:
    given, expected = [], []
    for suffix in ("idx", "pos", "term", "fast", "del", "fieldnorm"):
        folder = sample.copy_to(tmp_path / f"{suffix}.quoth")
        given += [str(next(folder.rglob(f"*.{suffix}"))), str(folder)]
        expected += [suffix, "damaged", "damaged", "mended"]
    done = subprocess.run(  # a process of its own, as reading past the end would end it
        [sys.executable, "-X", "faulthandler", "-c", CUT_WHILE_OPEN, *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout.split()) == (0, expected), done.stderr


def test_an_engine_that_stays_open_sees_what_another_repaired(
    sample: Sample, tmp_path: Path
) -> None:
    for seed in range(5):
        folder = sample.copy_to(tmp_path / f"{seed}.quoth")
        chance = random.Random(seed)
        with _open(folder) as engine, _open(folder) as late, _open(folder) as other:
            engine.search("owl")
            damaging.truncate(chance.choice(_derived(folder)))
            with contextlib.suppress(Damaged):
                engine.search("owl barn")
            with pytest.raises(Damaged):
                late.search("owl barn")
            other.verify(repair=True)
            sample.assert_reads_back(late)
            sample.assert_reads_back(other)
            with contextlib.suppress(Damaged):  # it may have found out only now
                engine.search("owl barn")
            sample.assert_reads_back(engine)


@pytest.mark.parametrize("content", [None, b"", b"[]", b'["gone.idx"]', b"{not json"])
def test_the_list_of_managed_files_may_be_lost_or_altered(
    sample: Sample, tmp_path: Path, content: bytes | None
) -> None:
    folder = sample.copy_to(tmp_path / "copy.quoth")
    (path,) = folder.rglob(MANAGED)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    later = Document("later", {"text": ("owl later",)})
    with _open(folder) as engine:
        engine.verify(repair=True)
        engine.add_documents([later])
        engine.remove(["d1"])
        assert engine.verify().is_clean
        engine.remove(["later"])
        engine.add_documents([sample.documents["d1"]])
        assert engine.verify().is_clean
        sample.assert_reads_back(engine)


def test_files_of_another_collection_are_noticed_and_never_searched_with(
    sample: Sample, tmp_path: Path
) -> None:
    other = tmp_path / "other.quoth"
    with _open(other) as engine:  # as many documents, and the same settings
        engine.add_documents(damaging.make_document(number, seed=9) for number in range(62))
        engine.remove(["d3", "d4"])
        engine.add_documents([Document("d5", {"text": ("other owl",)})])
    for number, name in enumerate(("artifact.json", "statistics.db", "passages.db", "index-1")):
        folder = sample.copy_to(tmp_path / f"{number}.quoth")
        path = folder / "lexical" / name
        if path.is_dir():
            shutil.rmtree(path)
            shutil.copytree(other / "lexical" / name, path)
        else:
            path.write_bytes((other / "lexical" / name).read_bytes())
        with _open(folder) as engine:
            try:
                sample.assert_reads_back(engine)
            except Damaged as error:
                assert str(folder) in str(error)
        folder = sample.copy_to(tmp_path / f"{number}-checked.quoth")
        path = folder / "lexical" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        copy = shutil.copytree if (other / "lexical" / name).is_dir() else shutil.copy
        copy(other / "lexical" / name, path)
        with _open(folder) as engine:
            assert any(str(path.parent) in line for line in engine.verify().indexes), name
            assert engine.verify(repair=True).is_clean
            sample.assert_reads_back(engine)


@pytest.mark.parametrize("moment", [0, 4_000_000_000], ids=["1970", "2096"])
def test_clocks_that_jump_are_no_damage(sample: Sample, tmp_path: Path, moment: int) -> None:
    """Times of files come from clocks that are set back, or of other machines."""
    folder = sample.copy_to(tmp_path / "copy.quoth")
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (moment, moment))
    with _open(folder) as engine:
        sample.assert_reads_back(engine)
        assert engine.verify().lines() == ()
        engine.add_documents([Document("later", {"text": ("owl",)})])
        engine.remove(["later"])
        sample.assert_reads_back(engine)
        assert engine.verify().lines() == ()


# --- The documents --------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [damaging.truncate, Path.unlink], ids=["truncated", "deleted"])
def test_a_cut_or_missing_store_is_reported_by_name(
    sample: Sample, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = sample.copy_to(tmp_path / "copy.quoth")
    harm(folder / FILE_NAME)
    with _open(folder) as engine:
        try:
            problems = engine.verify().store
        except Damaged as error:
            problems = (str(error),)
    assert any(str(folder / FILE_NAME) in problem for problem in problems)


@pytest.mark.parametrize("seed", [*range(10), 1026, 1238, 1769])  # these once leaked
def test_a_flipped_bit_in_the_store_never_goes_unnoticed(
    sample: Sample, tmp_path: Path, seed: int
) -> None:
    folder = sample.copy_to(tmp_path / "copy.quoth")
    damaging.flip_bit(folder / FILE_NAME, random.Random(seed))
    with _open(folder) as engine:
        try:
            damage = engine.verify()
        except CollectionError as error:
            assert str(folder) in str(error)
            return
        if damage.store or damage.indexes:
            assert any(FILE_NAME in problem for problem in (*damage.store, *damage.indexes))
            return
        sample.assert_reads_back(engine)


def test_reading_an_altered_store_gives_the_truth_or_one_of_our_errors(
    sample: Sample, tmp_path: Path
) -> None:
    for seed in (*range(25, 35), 1792):  # the last makes a blob of a docid
        folder = sample.copy_to(tmp_path / f"{seed}.quoth")
        damaging.flip_bit(folder / FILE_NAME, random.Random(seed))
        with _open(folder) as engine:
            try:
                for docid in engine.docids():
                    engine.document(docid)
                engine.search("owl barn", k=99, where="year >= 2000")
                engine.add_documents([Document("later", {"text": ("owl",)})])
            except CollectionError:
                continue
