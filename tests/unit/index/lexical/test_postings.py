"""Files of postings: what a batch leaves, what is dropped, and what is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from quoth import compiled
from quoth.engine.engine import Engine
from quoth.errors import Damaged
from quoth.index.lexical.index import LexicalIndex
from quoth.index.lexical.postings import FOLDER, PostingsEntry, open_segments
from quoth.index.lexical.postings_writer import PostingsWriter
from quoth.records import Document

native = pytest.importorskip("quoth.native", reason="nothing was compiled")


def _documents(numbers: Iterable[int]) -> list[Document]:
    return [
        Document(f"d{at}", {"title": (f"owl {at}",), "text": ("an owl hunts",)}) for at in numbers
    ]


def _entry(folder: Path) -> PostingsEntry | None:
    index = LexicalIndex.open(folder / "lexical")
    assert index is not None
    return PostingsEntry.of(index.artifact)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "lexical" / FOLDER).iterdir())


def test_small_batches_become_one_segment_and_leave_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Engine.open(folder) as engine:
        for at in range(4):
            engine.add_documents(_documents(range(10 * at, 10 * at + 10)))
        entry = _entry(folder)
        assert entry is not None and len(entry.segments) == 1 and entry.gone is None
        assert _names(folder) == list(entry.segments)
        engine.remove(["d3"])
        assert [hit.docid for hit in engine.search("3")] == []
        assert len(engine.search("hunts", k=100)) == 39
        assert engine.verify().is_clean


def test_rows_that_are_gone_are_listed_until_their_segment_is_merged(tmp_path: Path) -> None:
    writer = PostingsWriter(tmp_path, ["text"])
    for row in range(1, 5):
        writer.add_joined((row,), ({"text": ["owl"]},))
    entry, _seals = writer.finish()
    writer = PostingsWriter(tmp_path, ["text"], current=entry)
    writer.remove([2, 3, 99])  # nothing was ever added in row 99
    entry, _seals = writer.finish()
    assert entry.gone is not None
    assert (tmp_path / FOLDER / entry.gone).stat().st_size == 2 * 8
    writer = PostingsWriter(tmp_path, ["text"], current=entry)
    writer.add_joined((5,), ({"text": ["barn"]},))
    entry, _seals = writer.finish()
    assert entry.gone is None
    assert open_segments(tmp_path, entry).counts() == [3]


def test_what_was_written_before_keeps_its_seal(tmp_path: Path) -> None:
    writer = PostingsWriter(tmp_path, ["text"])
    for row in range(1, 3000):
        writer.add_joined((row,), ({"text": [f"owl w{row}"]},))
    first, seals = writer.finish()
    writer = PostingsWriter(tmp_path, ["text"], current=first, seals=seals)
    writer.add_joined((3000,), ({"text": ["barn"]},))
    second, more = writer.finish()
    assert second.segments[:1] == first.segments and len(second.segments) == 2
    assert more.items() >= seals.items()


def test_an_index_without_any_gets_them_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c"
    with monkeypatch.context() as patched:
        for module in ("writer", "postings"):
            patched.setattr(f"quoth.index.lexical.{module}.is_compiled", lambda: False)
        patched.setattr("quoth.search.lexical.kept_postings.is_compiled", lambda: False)
        with Engine.open(folder) as engine:
            engine.add_documents(_documents(range(30)))
            assert len(engine.search("owl", k=50)) == 30
    assert _entry(folder) is None and not (folder / "lexical" / FOLDER).exists()
    with Engine.open(folder) as engine:
        engine.add_documents(_documents([77]))
        entry = _entry(folder)
        assert entry is not None and _names(folder) == list(entry.segments)
        assert len(engine.search("owl", k=50)) == 31
        assert engine.verify().is_clean


def test_who_cannot_write_them_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c"
    with Engine.open(folder) as engine:
        engine.add_documents(_documents(range(5)))
    for module in ("writer", "postings"):
        monkeypatch.setattr(f"quoth.index.lexical.{module}.is_compiled", lambda: False)
    monkeypatch.setattr("quoth.search.lexical.kept_postings.is_compiled", lambda: False)
    with Engine.open(folder) as engine:
        engine.add_documents(_documents(range(5, 9)))
        assert len(engine.search("owl", k=50)) == 9
        assert _entry(folder) is None and _names(folder) == []
        assert engine.verify().is_clean


def test_other_postings_than_the_documents_have_are_told(tmp_path: Path) -> None:
    folder, other = tmp_path / "c", tmp_path / "other"
    for path, numbers in ((folder, range(40)), (other, range(1, 41))):
        with Engine.open(path) as engine:
            engine.add_documents(_documents(numbers))
    shutil.rmtree(folder / "lexical" / FOLDER)
    shutil.copytree(other / "lexical" / FOLDER, folder / "lexical" / FOLDER)
    with Engine.open(folder) as engine:
        assert any(FOLDER in each for each in engine.verify().indexes)
        assert engine.verify(repair=True).repaired
        assert engine.verify().is_clean


@pytest.mark.parametrize("at", range(0, 900, 37))
def test_damaged_bytes_never_end_the_process(tmp_path: Path, at: int) -> None:
    writer = PostingsWriter(tmp_path, ["title", "text"])
    for row in range(1, 300):
        writer.add_joined(
            (row,), ({"title": [f"w{row % 5}"], "text": ["owl " * (row % 3) + f"w{row}"]},)
        )
    entry, _seals = writer.finish()
    path = tmp_path / FOLDER / entry.segments[0]
    content = bytearray(path.read_bytes())
    for place in range(at, len(content), 900):
        content[place] ^= 1 << (place % 8)
    path.write_bytes(content)
    weights, norms = b"".join(_one(1.0) for _each in range(33)), (_one(1.2) * 256,) * 33
    try:
        segments = open_segments(tmp_path, entry)
        terms = [(term, weights, None) for term in ("owl", "w1", "w40", "none")]
        segments.search(terms, [("owl", 0, False)], None, 299, norms, weights, 1.2, 5)
        segments.digest()
    except (Damaged, ValueError) as error:
        assert "damaged" in str(error)


def _one(number: float) -> bytes:
    import struct

    return struct.pack("=d", number)


def test_a_build_of_another_version_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "INTERFACE", compiled.INTERFACE + 1)
    compiled.is_compiled.cache_clear()
    try:
        assert not compiled.is_compiled()
        assert "another version" in caplog.text
    finally:
        monkeypatch.undo()
        compiled.is_compiled.cache_clear()
    assert compiled.is_compiled()
