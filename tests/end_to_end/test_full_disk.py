"""A full disk stops a write with a clear error; nothing acknowledged is lost, and it goes on."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import damaging
import limited_writer
import pytest

from quoth.collection.store import FILE_NAME, Store
from quoth.engine.engine import Engine
from quoth.errors import StorageFull
from quoth.records import Document
from quoth.text.passages import PassageConfig, cut_document

slow = partial(pytest.param, marks=pytest.mark.slow)  # further places to stop at
CUT = partial(cut_document, config=PassageConfig())
WRITER = Path(limited_writer.__file__)
PAGE = 4096


def _write_limited(folder: Path, max_bytes: int) -> tuple[set[str], str]:
    """Let a limited process write; returns the docids it acknowledged and the error it met."""
    done = subprocess.run(
        [sys.executable, str(WRITER), str(folder), str(max_bytes)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    starts = [int(line.split()[1]) for line in lines if line.startswith("added ")]
    error = "" if not lines or lines[-1].startswith("added ") else lines[-1]
    return {f"d{start + at}" for start in starts for at in range(limited_writer.BATCH)}, error


def _assert_whole(folder: Path, acknowledged: set[str]) -> None:
    """All that was acknowledged is there, whole batches at most besides, and the index agrees."""
    with Engine.open(folder, settings=damaging.SETTINGS) as engine:
        engine.add_documents([])  # the next open for writing catches up
        found = set(engine.docids())
        assert found >= acknowledged and len(found) % limited_writer.BATCH == 0
        assert len(found - acknowledged) <= limited_writer.BATCH, "at most the batch in flight"
        for docid in found:
            expected = damaging.make_document(int(docid[1:]), seed=1)
            assert engine.document(docid) == expected
        assert {hit.docid for hit in engine.search("owl", k=9999)} == found
        damage = engine.verify()
        assert damage.is_clean, damage


# --- SQLite's own limit ---------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_is_undone_and_the_next_one_works(tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(50_000))
    with closing(Store.create(tmp_path)) as store:
        store.add([Document("first", {"text": ("owl",)})], cut=CUT)
        store._db.run("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = (tmp_path / FILE_NAME).stat().st_size // PAGE
        store._db.run(f"PRAGMA max_page_count = {pages + 4}")
        batch = [Document("small", {"text": ("barn",)}), Document("large", {"text": (long,)})]
        with pytest.raises(StorageFull) as caught:
            store.add(batch, cut=CUT)
        assert str(tmp_path / FILE_NAME) in str(caught.value)
        assert "everything acknowledged before is kept" in str(caught.value)
        assert store.all_docids() == ("first",) and store.change == 1
        assert store.get("first") == Document("first", {"text": ("owl",)})
        store._db.run(f"PRAGMA max_page_count = {pages * 1000}")
        store.add(batch, cut=CUT)
        assert store.all_docids() == ("first", "small", "large")
        assert list(store.find_damage(cut=CUT)) == []


# --- A limit on the size of files -----------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [1, PAGE, 40_000, 180_000, *map(slow, (100_000, 300_000))])
def test_a_limited_writer_stops_with_our_error_and_loses_nothing(
    tmp_path: Path, max_bytes: int
) -> None:
    folder = tmp_path / "c.quoth"
    acknowledged, error = _write_limited(folder, max_bytes)
    assert error == "StorageFull"
    assert len(acknowledged) < limited_writer.MOST
    _assert_whole(folder, acknowledged)


def test_without_a_limit_the_writer_finishes(tmp_path: Path) -> None:
    acknowledged, error = _write_limited(tmp_path / "c.quoth", 0)
    assert error == "" and len(acknowledged) == limited_writer.MOST
    _assert_whole(tmp_path / "c.quoth", acknowledged)


CATCH_UP = """
import resource, signal, sys
import quoth.compiled
quoth.compiled.is_compiled = lambda: False  # postings would be the first to fill the disk
from quoth.engine.engine import Engine
from quoth.errors import StorageFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
engine = Engine.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    engine.add_documents([])
except StorageFull as error:
    print(error)
"""


@pytest.fixture(scope="module")
def uncaught(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """Make a collection whose store is far ahead of its index, so that only the index must grow."""
    folder = tmp_path_factory.mktemp("uncaught") / "c.quoth"
    chance = random.Random(4)
    with Engine.open(folder) as engine:
        engine.add_documents([Document("first", {"text": ("owl",)})])
    with closing(Store.create(folder)) as store:
        for number in range(500):
            words = " ".join(f"w{chance.randrange(9000)}" for _ in range(40))
            store.add([Document(f"d{number}", {"text": (f"owl {words}",)})], cut=CUT)
    return folder, {"first", *(f"d{number}" for number in range(500))}


@pytest.mark.parametrize(
    ("max_bytes", "named"),
    [
        (33_000, "lexical"),
        slow(60_000, "lexical"),
        (150_000, "statistics.db"),
        slow(220_000, "statistics.db"),
    ],
)
def test_an_index_that_cannot_grow_is_caught_up_later(
    uncaught: tuple[Path, set[str]], tmp_path: Path, max_bytes: int, named: str
) -> None:
    folder = Path(shutil.copytree(uncaught[0], tmp_path / "c.quoth"))
    command = [sys.executable, "-c", CATCH_UP, str(folder), str(max_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert named in done.stdout and "could not be written" in done.stdout
    with Engine.open(folder) as engine:
        assert {hit.docid for hit in engine.search("owl", k=9999)} == uncaught[1]
        assert engine.verify().is_clean


# --- A disk that is full --------------------------------------------------------------------------


@contextmanager
def _small_disk(path: Path, *, kilobytes: int) -> Iterator[Path]:
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount command")
@pytest.mark.parametrize("kilobytes", [300, slow(700), 1000])
def test_a_full_disk_stops_with_our_error_and_loses_nothing(tmp_path: Path, kilobytes: int) -> None:
    with _small_disk(tmp_path / "disk", kilobytes=kilobytes) as disk:
        acknowledged, error = _write_limited(disk / "c.quoth", 0)
        assert error == "StorageFull" and len(acknowledged) < limited_writer.MOST
        shutil.copytree(disk / "c.quoth", tmp_path / "c.quoth")  # where there is room
    _assert_whole(tmp_path / "c.quoth", acknowledged)
