"""An index that follows what is being stored: it never decides what the collection is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quoth import portions
from quoth.collection import portions as stored_portions
from quoth.engine.engine import Engine
from quoth.errors import Damaged, IndexMoved
from quoth.index.lexical import passage_terms
from quoth.index.lexical.index import LexicalIndex, read_artifact
from quoth.records import Document
from quoth.search.lexical.follower import Follower
from quoth.search.lexical.searcher import LexicalSearcher
from quoth.search.lexical.upkeep import LexicalUpkeep
from quoth.search.searcher import Progress, ignore_progress
from quoth.vocabulary import statistics

FILES = ("statistics.db", "passages.db", "postings/segment-1.bin")
SETTINGS = {"collection": {"workers": 1, "batch_documents": 10}}


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a follower take part on a machine with one core, too."""
    monkeypatch.setattr(portions, "_count_cores", lambda: 2)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note up to which change a follower brought the index."""
    reached: list[int] = []
    follow = LexicalUpkeep.follow

    def noting(self: LexicalUpkeep) -> None:
        follow(self)
        artifact = read_artifact(self._folder)
        reached.append(-1 if artifact is None else artifact.change)

    monkeypatch.setattr(LexicalUpkeep, "follow", noting)
    return reached


def _documents(count: int, *, word: str = "owl") -> Iterator[Document]:
    return (Document(f"d{at}", {"text": (f"{word} barn w{at}",)}) for at in range(count))


def test_it_is_given_all_changes_in_order_and_waited_for() -> None:
    seen: list[int] = []

    def follow(further: Iterator[int], progress: Progress) -> None:
        for change in further:
            seen.append(change)
            progress("indexing words", change, 3)

    told: list[tuple[str, int, int]] = []
    follower = Follower(follow, last_change=iter((1, 2, 3)).__next__)
    follower.go_on()
    follower.go_on()
    follower.finish(lambda *state: told.append(state))
    assert seen == [1, 2, 3]
    assert told[-1] == ("indexing words", 3, 3)


def test_without_a_change_there_is_no_thread() -> None:
    def follow(_further: Iterator[int], _progress: Progress) -> None:
        raise AssertionError("nothing was to follow")

    before = threading.active_count()
    Follower(follow, last_change=lambda: 1).finish(ignore_progress)
    assert threading.active_count() == before


def test_it_begins_again_where_a_field_came_and_not_for_ever() -> None:
    begun: list[list[int]] = []

    def follow(further: Iterator[int], _progress: Progress) -> None:
        begun.append(list(further))
        raise IndexMoved("a field came")

    follower = Follower(follow, last_change=lambda: 1)
    follower.go_on()
    follower.finish(ignore_progress)
    assert begun == [[1, 1], [1], [1]]


def test_a_failure_stays_its_own() -> None:
    def follow(_further: Iterator[int], _progress: Progress) -> None:
        raise Damaged("broken")

    follower = Follower(follow, last_change=lambda: 1)
    follower.go_on()
    follower.go_on()
    follower.finish(ignore_progress)


def test_it_gives_up_when_nobody_waits() -> None:
    may_go_on = threading.Event()
    steps = 0

    def follow(further: Iterator[int], progress: Progress) -> None:
        nonlocal steps
        for _change in further:
            may_go_on.wait(10)
            progress("indexing words", 0, 1)
            steps += 1

    def interrupt(*_state: Any) -> None:
        may_go_on.set()
        raise KeyboardInterrupt

    follower = Follower(follow, last_change=lambda: 1)
    for _change in range(5):
        follower.go_on()
    with pytest.raises(KeyboardInterrupt):
        follower.finish(interrupt)
    assert steps == 0
    assert not [each for each in threading.enumerate() if each is follower._thread]


def test_what_was_followed_is_indexed_already(tmp_path: Path, followed: list[int]) -> None:
    with Engine.open(tmp_path / "c", settings=[SETTINGS]) as engine:
        engine.add_documents(_documents(95))
        assert followed == [95]
        assert engine.search("w94 w3", k=2)[0].docid in ("d94", "d3")
        assert engine.verify().is_clean


def test_one_batch_is_not_followed(tmp_path: Path, followed: list[int]) -> None:
    with Engine.open(tmp_path / "c", settings=[SETTINGS]) as engine:
        engine.add_documents(_documents(10))
    assert not followed


def test_updates_and_repeated_docids_are_followed(tmp_path: Path, followed: list[int]) -> None:
    with Engine.open(tmp_path / "c", settings=[SETTINGS]) as engine:
        engine.add_documents(_documents(40))
        engine.add_documents([*_documents(60, word="hen"), *_documents(30, word="bat")])
        assert followed[0] == 40  # the second addition may have it begin anew, and give up
        assert {len(engine.search(word, k=99)) for word in ("hen", "bat")} == {30}
        assert not engine.search("owl", k=99)
        assert engine.verify().is_clean


def test_fields_that_come_later_are_indexed(tmp_path: Path) -> None:
    late = [Document(f"t{at}", {"title": (f"tower {at}",), "text": ("hen",)}) for at in range(40)]
    with Engine.open(tmp_path / "c", settings=[SETTINGS]) as engine:
        engine.add_documents([*_documents(40), *late, *_documents(80, word="bat")])
        assert len(engine.search("title:tower", k=99, syntax=True)) == 40
        assert engine.verify().is_clean


def test_a_follower_that_fails_leaves_everything_to_catching_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []

    def fail(*_arguments: Any, **_settings: Any) -> None:
        begun.append(True)
        raise Damaged("broken")

    monkeypatch.setattr(LexicalSearcher, "follow", fail)
    with Engine.open(tmp_path / "c", settings=[SETTINGS]) as engine:
        engine.add_documents(_documents(50))
        assert begun and len(engine.search("owl", k=99)) == 50
        assert engine.verify().is_clean


def test_what_stops_the_reading_leaves_what_was_stored_indexed(tmp_path: Path) -> None:
    def broken() -> Iterator[Document]:
        yield from _documents(35)
        raise KeyboardInterrupt

    with Engine.open(tmp_path / "c", settings=[SETTINGS]) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.add_documents(broken())
        index = LexicalIndex.open(tmp_path / "c" / "lexical")
        assert index is not None and index.num_documents == len(engine.docids()) >= 10
        assert engine.verify().is_clean


def test_files_are_the_same_byte_by_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, followed: list[int]
) -> None:
    monkeypatch.setattr(statistics, "_MAX_PENDING", 300)
    monkeypatch.setattr(passage_terms, "_MAX_PENDING", 60)
    monkeypatch.setattr(stored_portions, "MOST_DOCUMENTS", 7)
    found = []
    for workers in (0, 1):
        folder = tmp_path / str(workers)
        own = {"collection": {"workers": workers, "batch_documents": 10}}
        with Engine.open(folder, settings=[own]) as engine:
            engine.add_documents(_documents(333))
        found.append([(folder / "lexical" / name).read_bytes() for name in FILES])
    assert followed == [333] and found[0] == found[1]
