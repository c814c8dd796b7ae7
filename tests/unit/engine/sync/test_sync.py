"""A collection kept in step with folders: what is added, updated, removed, kept, and asked."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quoth import Engine
from quoth.collection.source_files import FILE_NAME, SourceFiles
from quoth.collection.sources import open_sources
from quoth.collection.store import Store
from quoth.engine.sync import reading
from quoth.engine.sync.sync import SyncOptions, forget_folders
from quoth.engine.sync.watching import Watcher
from quoth.errors import CollectionError, ConfigError, NotFound
from quoth.records import Document, Problem
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import merge_shards, split_collection
from quoth.text.folders.config import FolderConfig


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of three notes, named as from the folder above."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    _write(folder / "owl.md", "# Owl\nIt hunts at dusk.")
    _write(folder / "raven.txt", "A raven speaks.")
    _write(folder / "deep" / "hen.txt", "A hen sleeps.")
    return folder


@pytest.fixture
def engine(tmp_path: Path, notes: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "c.quoth") as opened:
        opened.sync(["notes"])
        yield opened


def _write(path: Path, text: str, *, seconds: int = 1_000_000_000) -> None:
    """Write a file that was last written long ago, so that its time of writing is trusted."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (seconds, seconds))


def _texts(engine: Any) -> dict[str, str]:
    return {each: engine.document(each).fields["text"][0] for each in engine.docids()}


def test_new_changed_and_deleted_files_are_followed(engine: Engine, notes: Path) -> None:
    assert sorted(engine.docids()) == ["notes/deep/hen.txt", "notes/owl.md", "notes/raven.txt"]
    _write(notes / "swift.txt", "Swifts sleep on the wing.")
    _write(notes / "raven.txt", "A raven listens.", seconds=1_000_000_001)
    (notes / "owl.md").unlink()
    report = engine.sync()
    assert (report.added, report.updated, report.removed) == (1, 1, 1)
    assert _texts(engine) == {
        "notes/deep/hen.txt": "A hen sleeps.",
        "notes/raven.txt": "A raven listens.",
        "notes/swift.txt": "Swifts sleep on the wing.",
    }
    assert engine.search("hunts") == ()
    assert engine.sync().files_read == 0


def test_a_renamed_file_is_found_under_its_new_name_alone(engine: Engine, notes: Path) -> None:
    (notes / "owl.md").rename(notes / "deep" / "barn owl.md")
    engine.sync()
    assert [hit.docid for hit in engine.search("hunts")] == ["notes/deep/barn owl.md"]


def test_documents_added_by_hand_stay(engine: Engine, notes: Path) -> None:
    engine.add_documents([Document("by hand", {"text": ("kept",)})])
    shutil.rmtree(notes / "deep")
    engine.sync()
    assert "by hand" in engine.docids() and "notes/deep/hen.txt" not in engine.docids()


def test_it_works_from_everywhere_with_the_same_docids(
    engine: Engine, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    _write(notes / "new.txt", "new")
    assert engine.sync().added == 1
    assert "notes/new.txt" in engine.docids()
    assert engine.sync([str(notes)]).added == 0  # the same folder by another name
    assert [each.name for each in open_sources(engine.folder).folders] == ["notes"]


def test_unchanged_files_are_not_opened(
    engine: Engine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> bytes:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(reading, "_hash_file", refuse)
    assert engine.sync().files_unchanged == 3


def test_a_touched_file_is_hashed_and_not_read(engine: Engine, notes: Path) -> None:
    os.utime(notes / "owl.md", (2_000_000, 2_000_000))
    report = engine.sync()
    assert (report.files_read, report.files_unchanged, report.updated) == (0, 3, 0)


def test_same_size_and_time_but_other_content_is_found_when_thorough(
    engine: Engine, notes: Path
) -> None:
    _write(notes / "raven.txt", "A raven sneaks.")
    assert engine.sync().updated == 0
    assert engine.sync(options=SyncOptions(thorough=True)).updated == 1
    assert _texts(engine)["notes/raven.txt"] == "A raven sneaks."


def test_a_file_written_just_now_is_looked_into_again(engine: Engine, notes: Path) -> None:
    path = notes / "raven.txt"
    path.write_text("first version")
    engine.sync()
    status = path.stat()
    path.write_text("other version")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # within one tick of the clock
    assert engine.sync().updated == 1


def test_thorough_brings_back_what_was_removed_by_hand(engine: Engine) -> None:
    engine.remove(["notes/owl.md"])
    assert engine.sync().added == 0
    assert engine.sync(options=SyncOptions(thorough=True)).added == 1


def test_a_missing_folder_loses_nothing(engine: Engine, notes: Path) -> None:
    notes.rename(notes.with_name("unmounted"))
    problems: list[Problem] = []
    report = engine.sync(options=SyncOptions(confirmed=1000), report=problems.append)
    assert (report.removed, len(engine.docids())) == (0, 3)
    assert "is not there; nothing of it is removed" in str(problems[0])


def test_an_emptied_folder_is_refused_until_confirmed(engine: Engine, notes: Path) -> None:
    shutil.rmtree(notes)
    notes.mkdir()
    with pytest.raises(
        CollectionError, match=r"remove 3 of 3 documents \(100%\) from notes.*--yes"
    ):
        engine.sync()
    assert len(engine.docids()) == 3
    plan = engine.plan_sync()
    assert (plan.removed, len(plan.warnings)) == (3, 1)
    assert engine.sync(options=SyncOptions(confirmed=plan.removed)).removed == 3
    assert engine.docids() == ()


def test_many_removals_are_held_back_while_the_rest_goes_on(tmp_path: Path, notes: Path) -> None:
    for number in range(30):
        _write(notes / f"{number}.txt", f"note number {number}")
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.sync(["notes"])
        for number in range(15):
            (notes / f"{number}.txt").unlink()
        _write(notes / "new.txt", "a new one that is longer than the others")
        with pytest.raises(CollectionError, match=r"15 of 33 documents \(45%\)"):
            engine.sync()
        report = engine.sync(options=SyncOptions(hold=True))
        assert (report.added, report.removed) == (1, 0)
        assert report.held == ("15 of 33 documents (45%) from notes",)
        assert engine.sync(options=SyncOptions(confirmed=15)).removed == 15


def test_a_renamed_folder_needs_no_confirmation(tmp_path: Path, notes: Path) -> None:
    for number in range(30):
        _write(notes / "deep" / f"{number}.txt", f"note number {number}")
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.sync(["notes"])
        (notes / "deep").rename(notes / "deeper")
        report = engine.sync()
        assert (report.added, report.removed) == (31, 31)


def test_records_that_leave_a_file_leave_the_collection(engine: Engine, notes: Path) -> None:
    records = [{"_id": name, "text": f"about {name}"} for name in ("a", "b")]
    lines = [json.dumps(each) for each in records]
    _write(notes / "some.jsonl", "\n".join(lines))
    assert engine.sync().added == 2
    _write(notes / "some.jsonl", lines[1], seconds=1_000_000_001)
    assert engine.sync().removed == 1
    assert {"a", "b"} & set(engine.docids()) == {"b"}


def test_a_record_that_moves_between_files_is_kept(engine: Engine, notes: Path) -> None:
    record = json.dumps({"_id": "a", "text": "about a"})
    other = json.dumps({"_id": "b", "text": "about b"})
    for first, second in (("1.jsonl", "2.jsonl"), ("9.jsonl", "8.jsonl")):
        _write(notes / first, f"{record}\n{other}")
        engine.sync()
        _write(notes / second, record)
        _write(notes / first, other, seconds=1_000_000_001)
        engine.sync(report=lambda _problem: None)
        engine.sync()
        assert engine.document("a").fields["text"] == ("about a",)
        (notes / first).unlink()
        (notes / second).unlink()
        engine.sync()


def test_a_duplicate_is_reported_and_takes_over_when_the_first_is_deleted(
    engine: Engine, notes: Path
) -> None:
    record = json.dumps({"_id": "a", "text": "about a"})
    _write(notes / "1.jsonl", record)
    _write(notes / "2.jsonl", record)
    problems: list[Problem] = []
    engine.sync(report=problems.append)
    assert [str(each) for each in problems] == [
        "notes/2.jsonl:1: duplicate id 'a', which this sync has"
    ]
    (notes / "1.jsonl").unlink()
    engine.sync(report=problems.append)
    assert engine.document("a").fields["text"] == ("about a",)
    (notes / "2.jsonl").unlink()
    assert engine.sync().removed == 1


def test_a_file_that_cannot_be_read_keeps_what_it_was(engine: Engine, notes: Path) -> None:
    (notes / "raven.txt").write_bytes(b"broken \xff")
    problems: list[Problem] = []
    assert engine.sync(report=problems.append).skipped == 1
    assert "notes/raven.txt" in str(problems[0])
    assert _texts(engine)["notes/raven.txt"] == "A raven speaks."


def test_a_file_without_anything_in_it_loses_its_document(engine: Engine, notes: Path) -> None:
    (notes / "raven.txt").write_text("")
    engine.sync(report=lambda _problem: None)
    assert "notes/raven.txt" not in engine.docids()


def test_a_file_that_changes_while_it_is_read_is_read_again(
    engine: Engine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, original = notes / "raven.txt", reading.read_file
    _write(path, "A raven listens.", seconds=1_000_000_001)

    def read_and_change(name: str, *arguments: Any, **options: Any) -> Any:
        yield from original(name, *arguments, **options)
        if name == str(path):
            _write(path, "A raven listened.", seconds=1_000_000_002)

    problems: list[Problem] = []
    with monkeypatch.context() as patched:
        patched.setattr(reading, "read_file", read_and_change)
        engine.sync(report=problems.append)
    assert "changed while it was read" in str(problems[0])
    engine.sync()
    assert _texts(engine)["notes/raven.txt"] == "A raven listened."


def test_an_interrupted_sync_goes_on_where_it_stopped(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"collection": {"batch_documents": 1}}
    with Engine.open(tmp_path / "c.quoth", settings=[small]) as engine:
        original = Store.add
        calls = []

        def add(self: Store, documents: Any, **options: Any) -> Any:
            calls.append(documents)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return original(self, documents, **options)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Store, "add", add)
            engine.sync(["notes"])
        stored = len(engine.docids())
        assert 0 < stored < 3
        report = engine.sync()
        assert (report.added, report.files_read) == (3 - stored, 3 - stored)


def test_it_stops_between_files_without_removing(engine: Engine, notes: Path) -> None:
    (notes / "owl.md").unlink()
    _write(notes / "a.txt", "a")
    report = engine.sync(is_to_stop=lambda: True)
    assert (report.is_complete, report.added, report.removed) == (False, 0, 0)
    assert engine.sync().is_complete


def test_claimed_documents_of_a_deleted_file_are_removed_after_a_crash(
    engine: Engine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(notes / "new.txt", "new")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(SourceFiles, "finish_files", _interrupt)
        engine.sync()
    assert "notes/new.txt" in engine.docids()
    (notes / "new.txt").unlink()
    assert engine.sync().removed == 1


def _interrupt(*_arguments: object) -> None:
    raise KeyboardInterrupt


def test_the_settings_of_reading_are_remembered(tmp_path: Path, notes: Path) -> None:
    _write(notes / "t.csv", "isbn,text\n1,about owls\n")
    _write(notes / ".hidden.txt", "hidden")
    given = {"readers": {"id_key": "isbn"}, "sync": {"hidden": True}}
    with Engine.open(tmp_path / "c.quoth", settings=[given]) as engine:
        engine.sync(["notes"])
    with Engine.open(tmp_path / "c.quoth") as engine:
        assert engine.sync().removed == 0
        assert {"1", "notes/.hidden.txt"} <= set(engine.docids())
    other = {"readers": {"id_key": "#line"}}
    with Engine.open(tmp_path / "c.quoth", settings=[other]) as engine:
        engine.sync()
        assert "1" not in engine.docids() and "notes/t.csv:2" in engine.docids()


def test_a_folder_that_moved_is_followed_by_its_old_name(
    engine: Engine, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new home").mkdir()
    notes.rename(tmp_path / "new home" / "notes")
    monkeypatch.chdir(tmp_path / "new home")
    report = engine.sync(["notes"])
    assert (report.added, report.removed, report.files_unchanged) == (0, 0, 3)


def test_folders_that_would_be_read_twice_are_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"notes/deep is inside notes"):
        engine.sync(["notes/deep"])
    with pytest.raises(CollectionError, match=r"is inside .*--forget notes"):
        engine.sync([str(tmp_path)])
    with pytest.raises(ConfigError, match=r"owl\.md is not a folder"):
        engine.sync(["notes/owl.md"])


def test_without_any_folder_it_says_what_to_do(tmp_path: Path) -> None:
    no_folder = pytest.raises(ConfigError, match="has no folders to sync")
    with Engine.open(tmp_path / "c.quoth") as engine, no_folder:
        engine.sync()
    assert not (tmp_path / "c.quoth").exists()


def test_a_forgotten_folder_leaves_its_documents(engine: Engine, notes: Path) -> None:
    assert forget_folders(engine, ["notes/"]) == 3
    shutil.rmtree(notes)
    assert len(engine.docids()) == 3 and engine.status()["sources"] == []
    with pytest.raises(NotFound, match="is not synced"):
        forget_folders(engine, ["notes"])


def test_the_collection_may_lie_in_its_own_folder(notes: Path) -> None:
    with Engine.open(notes / "c.quoth") as engine:
        assert engine.sync(["notes"]).added == 3
        assert engine.sync().added == 0


def test_shards_follow_folders_too(engine: Engine, notes: Path, tmp_path: Path) -> None:
    split_collection(engine.folder, tmp_path / "s", count=2)
    with ShardedEngine.open(tmp_path / "s") as sharded:
        assert sharded.status()["sources"] == ["notes"]
        assert sharded.sync().files_unchanged == 3
        _write(notes / "raven.txt", "A raven listens.", seconds=1_000_000_001)
        (notes / "owl.md").unlink()
        _write(notes / "swift.txt", "Swifts sleep.")
        report = sharded.sync()
        assert (report.added, report.updated, report.removed) == (1, 1, 1)
        assert sorted(sharded.docids()) == [
            "notes/deep/hen.txt",
            "notes/raven.txt",
            "notes/swift.txt",
        ]
        assert sharded.verify().is_clean
    merge_shards(tmp_path / "s", tmp_path / "m.quoth")
    with Engine.open(tmp_path / "m.quoth") as merged:
        assert merged.sync().files_unchanged == 3


def test_verify_finds_damage_in_what_is_known_of_files(engine: Engine) -> None:
    assert engine.verify().is_clean
    engine.close()
    (engine.folder / FILE_NAME).write_bytes(b"no database" * 1000)
    damage = engine.verify()
    assert not damage.is_clean and FILE_NAME in damage.indexes[0]
    assert engine.verify(repair=True).is_clean
    report = engine.sync()
    assert (report.files_read, report.added, report.updated) == (3, 0, 0)


def test_the_watcher_says_when_something_changed(notes: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    watcher = Watcher(notes / "c.quoth", lambda: [str(notes)], stop)
    (notes / "c.quoth").mkdir()
    due = watcher.due(FolderConfig(settle_seconds=0.05, rescan_seconds=600))
    next(due)  # at first
    next(due)  # once watching has begun
    (notes / "c.quoth" / "own.txt").write_text("a change of the collection itself")
    _write(notes / "new.txt", "new")
    next(due)
    stop.set()
    assert list(due) == []


def test_the_watcher_waits_for_a_folder_that_is_not_there(notes: Path) -> None:
    stop = threading.Event()
    missing = notes / "later"
    watcher = Watcher(notes / "c.quoth", lambda: [str(missing)], stop)
    due = watcher.due(FolderConfig(settle_seconds=0.05, rescan_seconds=0.2))
    next(due)
    next(due)  # looked again
    missing.mkdir()
    next(due)
    stop.set()
    assert list(due) == []
