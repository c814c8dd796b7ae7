"""A connection whose statements can be stopped, without harm to what comes after."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth.collection.database import Database
from quoth.collection.preparing import CutDocument
from quoth.collection.store import Store
from quoth.errors import Interrupted
from quoth.interruption import Interruption, interruptible
from quoth.records import Document

CUT: CutDocument = lambda _document: ()  # noqa: E731
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "some.db"
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE numbers (number INTEGER)")
    opened = Database(connection, path)
    yield opened
    opened.close()


def _stopped() -> Interruption:
    given = Interruption()
    given.stop()
    return given


def test_a_statement_stops_when_its_work_is_given_up(database: Database) -> None:
    given, caught = Interruption(), []

    def work() -> None:
        try:
            with interruptible(given), database.snapshot():
                database.all(ENDLESS)
        except Interrupted as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    given.stop()
    thread.join(300)
    assert not thread.is_alive() and len(caught) == 1
    assert not database.connection.in_transaction
    with database.snapshot():
        assert database.one("SELECT 2") == 2


def test_a_statement_stops_when_its_time_is_over(database: Database) -> None:
    with interruptible(Interruption(seconds=0.05)), pytest.raises(Interrupted):
        database.all(ENDLESS)


def test_the_work_of_others_goes_on(database: Database) -> None:
    with interruptible(_stopped()), pytest.raises(Interrupted):
        database.all(ENDLESS)
    many = f"{ENDLESS} WHERE x < 100000".replace("FROM n)", "FROM n LIMIT 200000)")
    assert database.one(many) == 99_999


def test_a_write_that_is_stopped_is_undone_whole(database: Database) -> None:
    database.run("INSERT INTO numbers VALUES (1)")
    with interruptible(Interruption()) as given, pytest.raises(Interrupted):  # noqa: SIM117
        with database.transaction():
            database.run("INSERT INTO numbers VALUES (2)")
            given.stop()
            database.run(f"INSERT INTO numbers {ENDLESS}")
    assert database.all("SELECT number FROM numbers") == [(1,)]
    with database.transaction():
        database.run("INSERT INTO numbers VALUES (3)")
    assert database.all("SELECT number FROM numbers") == [(1,), (3,)]


def test_a_transaction_begins_and_ends_even_in_work_that_is_given_up(database: Database) -> None:
    with interruptible(_stopped()):
        for _time in range(15_000):  # SQLite counts the steps of a statement it keeps
            with database.snapshot():
                pass
            assert not database.connection.in_transaction


def test_a_batch_that_is_stopped_leaves_all_before_it(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add([Document("first", {"text": ("owl",)})], cut=CUT)
    long = Document("second", {"text": ("owl",)}, {"n": tuple(range(50_000))})
    with interruptible(_stopped()), pytest.raises(Interrupted):
        store.add([Document("x", {"text": ("owl",)}), long], cut=CUT)
    assert store.all_docids() == ("first",)
    store.add([long], cut=CUT)
    assert store.all_docids() == ("first", "second")
    assert list(store.find_damage(cut=CUT)) == []
    store.close()
