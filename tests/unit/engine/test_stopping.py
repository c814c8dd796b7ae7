"""Work that is given up stops, wherever it is, and does no harm to what comes after."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quoth.collection.filter_rows import _RowReader
from quoth.engine.engine import Engine
from quoth.errors import Interrupted
from quoth.interruption import Interruption, interruptible
from quoth.records import Document

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
WHERE = "year >= 2000 and (kind == 'even' or not title contains '1')"


class _StopsAt(Interruption):
    """Falls due when it is looked at for the n-th time."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self.looked = 0

    @property
    def is_due(self) -> bool:
        self.looked += 1
        return self.looked > self._number


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "c.quoth", settings=[{"lexical": {"compact_share": 1.0}}]) as made:
        made.add_documents(
            Document(
                f"d{number}",
                {"title": (f"Owl {number}",), "text": (f"owl barn{number % 3} night{number % 7}",)},
                {"year": 1990 + number, "kind": ("odd", "even")[number % 2 == 0]},
            )
            for number in range(40)
        )
        made.remove(["d3"])  # from now on candidates are scored exactly
        yield made


def test_a_hostile_condition_stops_and_the_engine_searches_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = engine.search("owl barn1", where=WHERE)
    entries, begun = _RowReader.entries, threading.Event()

    def slow(self: _RowReader, where: str, parameters: tuple[Any, ...]) -> int:
        begun.set()
        self._db.all(ENDLESS)
        return entries(self, where, parameters)

    given, caught = Interruption(), []

    def work() -> None:
        try:
            with interruptible(given):
                engine.search("owl barn1", where=WHERE)
        except Interrupted as error:
            caught.append(error)

    monkeypatch.setattr(_RowReader, "entries", slow)
    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(300)
    given.stop()
    thread.join(300)
    assert not thread.is_alive() and len(caught) == 1
    monkeypatch.undo()
    assert engine.search("owl barn1", where=WHERE) == expected


def test_a_search_stops_wherever_it_is_given_up(engine: Engine) -> None:
    expected = engine.search("owl barn1 night2", where=WHERE, k=20)
    with interruptible(_StopsAt(10**9)) as never:
        assert engine.search("owl barn1 night2", where=WHERE, k=20) == expected
    assert isinstance(never, _StopsAt) and never.looked > len(expected)
    for number in range(never.looked):
        with interruptible(_StopsAt(number)), pytest.raises(Interrupted):
            engine.search("owl barn1 night2", where=WHERE, k=20)
        assert engine.search("owl barn1 night2", where=WHERE, k=20) == expected


def test_explaining_stops_between_documents(engine: Engine) -> None:
    with interruptible(_StopsAt(4)), pytest.raises(Interrupted):
        engine.explain("owl", [f"d{number}" for number in range(10, 20)])


def test_a_write_that_is_given_up_before_it_begins_writes_nothing(engine: Engine) -> None:
    before = engine.docids()
    for number in (0, 1):  # before and after waiting for the lock
        with interruptible(_StopsAt(number)), pytest.raises(Interrupted):
            engine.add_documents([Document("late", {"text": ("late owl",)})])
    assert engine.docids() == before
    engine.add_documents([Document("late", {"text": ("late owl",)})])
    assert [hit.docid for hit in engine.search("late")] == ["late"]


def test_a_write_that_has_begun_is_finished_with_its_indexes(engine: Engine) -> None:
    with interruptible(_StopsAt(2)):
        engine.add_documents([Document("late", {"text": ("late owl",)})])
    assert [hit.docid for hit in engine.search("late")] == ["late"]
    assert engine.verify().lines() == ()
